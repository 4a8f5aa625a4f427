#include <chrono>
#include <iostream>
#include <set>

#include "programs.hpp"

namespace {

using sbe::ExecutionType;

/// Prints every message, and remembers orders and reports.
class Printer : public MessageHandler {
public:
    explicit Printer(std::string name) : name_(std::move(name)) {}

    /// Returns the order id in the answer to a new order.
    std::uint64_t orderOf(OrderSession &session, std::uint64_t requestId) {
        session.awaitAnswer(requestId);
        const auto order = orders_.find(requestId);
        if (order == orders_.end()) {
            throw VenueError("the venue did not accept the order", "see the reject above");
        }
        return order->second;
    }

    void awaitReport(OrderSession &session, std::uint64_t order, ExecutionType::Value type) {
        while (reports_.count({order, type}) == 0) {
            session.poll();
        }
    }

    using MessageHandler::on;

    void on(sbe::OrderAccepted &message) override {
        orders_[message.requestId()] = message.orderId();
        print() << "accepted order " << message.orderId() << ' ' << message.status() << " quantity "
                << decimal(message.quantity()) << " filled " << decimal(message.filledQuantity()) << '\n';
    }

    void on(sbe::ExecutionReport &message) override {
        reports_.insert({message.orderId(), message.executionType()});
        print() << "report order " << message.orderId() << ' ' << message.executionType() << ' ' << message.status()
                << ' ' << message.side() << " price " << decimal(message.price()) << " filled "
                << decimal(message.filledQuantity()) << " last " << decimal(message.lastQuantity()) << " @ "
                << decimal(message.lastPrice()) << '\n';
    }

    void on(sbe::Reject &message) override {
        print() << "reject " << message.code() << ' ';
        // The texts have to be read in the order of the schema.
        std::cout << message.getNameAsString() << ": ";
        std::cout << message.getReasonAsString() << "; ";
        std::cout << message.getRemedyAsString() << '\n';
    }

    void on(sbe::MassCancelAccepted &message) override {
        print() << "cancelled " << message.cancelled() << " orders\n";
    }

    void on(sbe::BestPrices &message) override {
        print() << "best bid " << decimal(message.bidQuantity()) << " @ " << decimal(message.bidPrice()) << " ask "
                << decimal(message.askQuantity()) << " @ " << decimal(message.askPrice()) << '\n';
    }

    void on(sbe::Vwap &message) override {
        print() << "vwap trades " << decimal(message.trades()) << " bid " << decimal(message.bid()) << " ask "
                << decimal(message.ask()) << '\n';
    }

    void on(sbe::Book &message) override {
        message.levels().forEach([&](sbe::Book::Levels &level) {
            print() << "level " << level.side() << ' ' << decimal(level.quantity()) << " @ "
                    << decimal(level.price()) << '\n';
        });
    }

    void on(sbe::InstrumentStatus &message) override {
        print() << "status " << message.getSessionAsString().c_str() << ' ' << message.getStateAsString().c_str()
                << '\n';
    }

    void onLost() override { print() << "lost messages: query the orders\n"; }

private:
    std::ostream &print() const { return std::cout << name_ << ' '; }
    static std::string decimal(sbe::Decimal &value) { return formatDecimal(value.mantissa()); }

    const std::string name_;
    std::map<std::uint64_t, std::uint64_t> orders_;
    std::set<std::pair<std::uint64_t, ExecutionType::Value>> reports_;
};

} // namespace

void runOrders(const Address &address, std::uint32_t instrument, std::int64_t price, const Account &maker,
               const Account &taker) {
    Printer makerLog(maker.clientId), takerLog(taker.clientId);
    OrderSession a(address, maker.clientId, maker.secret, makerLog);
    OrderSession b(address, taker.clientId, taker.secret, takerLog);
    const auto run = std::to_string(std::chrono::system_clock::now().time_since_epoch().count());

    const auto entered = a.enterLimit(run + "-1", instrument, sbe::OrderSide::Buy, 10 * LOT, price);
    const auto order = makerLog.orderOf(a, entered);
    b.awaitAnswer(b.enterLimit(run + "-2", instrument, sbe::OrderSide::Sell, 4 * LOT, price));
    makerLog.awaitReport(a, order, ExecutionType::Trade);

    a.awaitAnswer(a.amend(order, 12 * LOT, price));
    using sbe::QuerySubject;
    for (const auto subject :
         {QuerySubject::BestPrices, QuerySubject::Book, QuerySubject::Vwap, QuerySubject::Status}) {
        a.awaitAnswer(a.query(instrument, subject, 10));
    }
    a.awaitAnswer(a.cancel(order));
    makerLog.awaitReport(a, order, ExecutionType::Cancelled);
    a.awaitAnswer(a.cancel(order)); // The venue rejects it: the order has ended.

    a.enterLimit(run + "-3", instrument, sbe::OrderSide::Buy, LOT, price);
    a.enterLimit(run + "-4", instrument, sbe::OrderSide::Buy, LOT, price);
    a.awaitAnswer(a.massCancel(instrument));
}
