package dev.pitwire.sbe;

import java.io.IOException;
import java.nio.ByteOrder;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;
import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.sbe.MessageDecoderFlyweight;
import org.agrona.sbe.MessageEncoderFlyweight;
import pitwire.sbe.AmendOrderEncoder;
import pitwire.sbe.BestPricesDecoder;
import pitwire.sbe.BookDecoder;
import pitwire.sbe.CancelOrderEncoder;
import pitwire.sbe.ExecutionReportDecoder;
import pitwire.sbe.HeartbeatDecoder;
import pitwire.sbe.HeartbeatEncoder;
import pitwire.sbe.InstrumentStatusDecoder;
import pitwire.sbe.LogonAcceptedDecoder;
import pitwire.sbe.LogonEncoder;
import pitwire.sbe.LogoutDecoder;
import pitwire.sbe.LogoutEncoder;
import pitwire.sbe.MarketQueryEncoder;
import pitwire.sbe.MassCancelAcceptedDecoder;
import pitwire.sbe.MassCancelEncoder;
import pitwire.sbe.MassCancelScope;
import pitwire.sbe.MessageHeaderDecoder;
import pitwire.sbe.MessageHeaderEncoder;
import pitwire.sbe.NewOrderEncoder;
import pitwire.sbe.OrderAcceptedDecoder;
import pitwire.sbe.QuerySubject;
import pitwire.sbe.RejectDecoder;
import pitwire.sbe.ReportsLostDecoder;
import pitwire.sbe.RetransmitCompleteDecoder;
import pitwire.sbe.RetransmitRequestEncoder;
import pitwire.sbe.VwapDecoder;

/**
 * A session of binary order entry. One thread calls {@link #poll}; any thread may send requests.
 *
 * <p>The gateway numbers its messages, so the session detects missing ones and requests them. After
 * a cut it logs on again with the number of the first message that it does not have. Then it sends
 * the requests again that have no answer.
 */
public final class OrderSession implements AutoCloseable {
    private static final int MAX_REQUEST_BYTES = 1024;
    private static final int HEARTBEAT_S = 5;
    /** The gateway is silent for three heartbeats: the connection is lost. */
    private static final int TIMEOUT_MS = 3 * HEARTBEAT_S * 1000;
    private static final int RECONNECT_ATTEMPTS = 50;
    private static final int RECONNECT_PAUSE_MS = 200;
    private static final int WRONG_CREDENTIALS = 13004;
    /** Sequence and request id are the first fields of every numbered message and answer. */
    private static final int SEQUENCE_OFFSET = MessageHeaderDecoder.ENCODED_LENGTH;
    private static final int REQUEST_ID_OFFSET = SEQUENCE_OFFSET + Long.BYTES;
    private static final int MESSAGE_OFFSET = FrameSocket.HEADER_BYTES;

    private final Gateway gateway;
    private final String clientId;
    private final String secret;
    private final MessageHandler handler;
    private FrameSocket socket;
    /** Identifies the numbering of the messages. It changes when the venue starts again. */
    private long epoch;
    /** Number of the first message that this session does not have. */
    private volatile long next;
    /** Messages that came after a missing one, by number. */
    private final TreeMap<Long, byte[]> early = new TreeMap<>();
    /** Guards the socket and the fields below when the thread is not the polling one. */
    private final Object lock = new Object();
    /** Frames of the requests without an answer, by request id. */
    private final Map<Long, UnsafeBuffer> unanswered = new LinkedHashMap<>();
    /**
     * After a reconnection, the number after the last missed message. Until then no request is
     * sent.
     */
    private long missedEnd;
    private volatile boolean isClosed;
    private final AtomicLong requestIds = new AtomicLong();

    private final UnsafeBuffer received = new UnsafeBuffer(0, 0);
    private final MessageHeaderDecoder header = new MessageHeaderDecoder();
    private final OrderAcceptedDecoder orderAccepted = new OrderAcceptedDecoder();
    private final ExecutionReportDecoder executionReport = new ExecutionReportDecoder();

    private OrderSession(Gateway gateway, String clientId, String secret, MessageHandler handler) {
        this.gateway = gateway;
        this.clientId = clientId;
        this.secret = secret;
        this.handler = handler;
    }

    /** Connects and logs on. Messages from now on go to the handler. */
    public static OrderSession logOn(Gateway gateway, String clientId, String secret,
                                     MessageHandler handler) {
        var session = new OrderSession(gateway, clientId, secret, handler);
        try {
            session.connect();
        } catch (IOException error) {
            throw session.unreachable(error.getMessage());
        }
        return session;
    }

    public long enter(NewOrder order) {
        return send(new NewOrderEncoder(), (message, id) -> {
            message.requestId(id).clientOrderId(order.clientOrderId()).instrumentId(order.instrumentId())
                .side(order.side()).orderType(order.type()).timeInForce(order.timeInForce());
            message.quantity().mantissa(order.quantity());
            message.price().mantissa(order.price());
            message.triggerPrice().mantissa(Decimals.NONE);
            message.displayQuantity().mantissa(Decimals.NONE);
            message.minimumQuantity().mantissa(Decimals.NONE);
        });
    }

    public long amend(long orderId, long quantity, long price) {
        return send(new AmendOrderEncoder(), (message, id) -> {
            message.requestId(id).orderId(orderId);
            message.quantity().mantissa(quantity);
            message.price().mantissa(price);
            message.triggerPrice().mantissa(Decimals.NONE);
            message.displayQuantity().mantissa(Decimals.NONE);
            message.minimumQuantity().mantissa(Decimals.NONE);
        });
    }

    public long cancel(long orderId) {
        return send(new CancelOrderEncoder(), (message, id) -> message.requestId(id).orderId(orderId));
    }

    /** Cancels all orders of the account in an instrument. */
    public long massCancel(long instrumentId) {
        return send(new MassCancelEncoder(),
            (message, id) -> message.requestId(id).scope(MassCancelScope.Instrument).instrumentId(instrumentId));
    }

    /** Asks for prices, VWAP, book or status. `depth` is the number of levels of a book. */
    public long query(long instrumentId, QuerySubject subject, int depth) {
        return send(new MarketQueryEncoder(),
            (message, id) -> message.requestId(id).instrumentId(instrumentId).subject(subject).depth(depth));
    }

    /** Polls until the request has its answer. */
    public void awaitAnswer(long requestId) {
        while (isUnanswered(requestId)) {
            poll();
        }
    }

    /**
     * Waits for a message, and passes the next numbered ones to the handler. Reconnects after a
     * cut.
     */
    public void poll() {
        try {
            sendUnanswered();
            socket.receive(received);
            dispatch();
        } catch (IOException cut) {
            reconnect(cut);
        }
    }

    /** Logs out. The orders stay in the market. */
    @Override
    public void close() {
        isClosed = true;
        try (FrameSocket closing = socket) {
            var frame = new UnsafeBuffer(new byte[MAX_REQUEST_BYTES]);
            closing.send(frame, wrap(new LogoutEncoder(), frame).reason("").encodedLength()
                + MessageHeaderEncoder.ENCODED_LENGTH);
        } catch (IOException ended) {
            // The connection is closed in any case.
        }
    }

    // Sending.

    private interface Fill<E> {
        void accept(E message, long requestId);
    }

    private <E extends MessageEncoderFlyweight> long send(E message, Fill<E> fill) {
        long id = requestIds.incrementAndGet();
        var frame = new UnsafeBuffer(new byte[MESSAGE_OFFSET + MessageHeaderEncoder.ENCODED_LENGTH
            + message.sbeBlockLength()]);
        fill.accept(wrap(message, frame), id);
        synchronized (lock) {
            unanswered.put(id, frame);
            try {
                if (missedEnd == 0) {
                    socket.send(frame, frame.capacity() - MESSAGE_OFFSET);
                }
            } catch (IOException cut) {
                // poll() notices the cut, and sends the request again.
            }
        }
        return id;
    }

    /** Sends the requests again that have no answer, after the last missed message. */
    private void sendUnanswered() throws IOException {
        synchronized (lock) {
            if (missedEnd != 0 && next >= missedEnd) {
                missedEnd = 0;
                for (UnsafeBuffer frame : unanswered.values()) {
                    socket.send(frame, frame.capacity() - MESSAGE_OFFSET);
                }
            }
        }
    }

    private static <E extends MessageEncoderFlyweight> E wrap(E message, UnsafeBuffer frame) {
        new MessageHeaderEncoder().wrap(frame, MESSAGE_OFFSET).blockLength(message.sbeBlockLength())
            .templateId(message.sbeTemplateId()).schemaId(message.sbeSchemaId()).version(message.sbeSchemaVersion());
        message.wrap(frame, MESSAGE_OFFSET + MessageHeaderEncoder.ENCODED_LENGTH);
        return message;
    }

    private boolean isUnanswered(long requestId) {
        synchronized (lock) {
            return unanswered.containsKey(requestId);
        }
    }

    private void sendControl(MessageEncoderFlyweight message, UnsafeBuffer frame) throws IOException {
        synchronized (lock) {
            socket.send(frame, MessageHeaderEncoder.ENCODED_LENGTH + message.sbeBlockLength());
        }
    }

    // Logon and reconnection.

    private void connect() throws IOException {
        var candidate = new FrameSocket(gateway, TIMEOUT_MS);
        try {
            var frame = new UnsafeBuffer(new byte[MAX_REQUEST_BYTES]);
            var logon = wrap(new LogonEncoder(), frame);
            logon.clientId(clientId).secret(secret).nextSequence(next).heartbeatS(HEARTBEAT_S);
            candidate.send(frame, MessageHeaderEncoder.ENCODED_LENGTH + logon.sbeBlockLength());
            candidate.receive(received);
            readHeader();
            acceptLogon(candidate);
        } catch (IndexOutOfBoundsException lies) {
            candidate.close();
            throw malformedMessage();
        } catch (IOException | RuntimeException error) {
            candidate.close();
            throw error;
        }
    }

    private void acceptLogon(FrameSocket candidate) throws IOException {
        switch (header.templateId()) {
            case LogonAcceptedDecoder.TEMPLATE_ID -> { }
            case LogoutDecoder.TEMPLATE_ID -> {
                var logout = decode(new LogoutDecoder());
                String refusal = "the gateway refused the logon of " + clientId + " with " + logout.code() + ": "
                    + logout.reason();
                if (logout.code() == WRONG_CREDENTIALS) {
                    throw new VenueException(refusal, "check the client id and its secret");
                }
                // For example, the gateway has not noticed the end of the old connection yet.
                throw new IOException(refusal);
            }
            default -> throw malformed("template " + header.templateId() + " as the answer to a logon");
        }
        var accepted = decode(new LogonAcceptedDecoder());
        if (epoch != 0 && epoch != accepted.epoch()) {
            throw new VenueException("the venue has started again, so the message numbers have no meaning",
                "query the orders, and log on anew");
        }
        if (epoch == 0) {
            epoch = accepted.epoch();
            next = accepted.nextSequence();
        } else {
            missedEnd = accepted.nextSequence();
        }
        socket = candidate;
        skipTo(accepted.oldestSequence());
    }

    private void reconnect(IOException cause) {
        IOException last = cause;
        for (int attempt = 0; attempt < RECONNECT_ATTEMPTS && !isClosed; attempt++) {
            try {
                synchronized (lock) {
                    socket.close();
                    early.clear();
                    connect();
                }
                return;
            } catch (IOException error) {
                last = error;
            }
            try {
                Thread.sleep(RECONNECT_PAUSE_MS);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                break;
            }
        }
        throw unreachable(last.getMessage());
    }

    private VenueException unreachable(String cause) {
        return new VenueException("cannot log on at " + gateway + ": " + cause,
            "start the venue with --sbe, and check the address");
    }

    // Receiving.

    private VenueException malformed(String what) {
        return VenueException.malformed(gateway, what);
    }

    /** The codec refuses the received message. */
    private VenueException malformedMessage() {
        return malformed("a message of template " + header.templateId() + " with a length or a value that is wrong");
    }

    /** Reads the header of the received message, and checks it. */
    private void readHeader() {
        header.wrap(received, 0);
        if (header.schemaId() != MessageHeaderDecoder.SCHEMA_ID) {
            throw malformed("schema id " + header.schemaId() + ", expected " + MessageHeaderDecoder.SCHEMA_ID);
        }
        if (header.blockLength() > received.capacity() - MessageHeaderDecoder.ENCODED_LENGTH) {
            throw malformed("a block of " + header.blockLength() + " bytes in a message of "
                + received.capacity());
        }
    }

    private void dispatch() throws IOException {
        readHeader();
        try {
            switch (header.templateId()) {
                case HeartbeatDecoder.TEMPLATE_ID -> onHeartbeat(decode(new HeartbeatDecoder()));
                case LogoutDecoder.TEMPLATE_ID -> {
                    var logout = decode(new LogoutDecoder());
                    throw new IOException("the gateway ended the session: " + logout.code() + " " + logout.reason());
                }
                case RetransmitCompleteDecoder.TEMPLATE_ID -> {
                    // The gateway does not have what is still missing.
                    skipTo(decode(new RetransmitCompleteDecoder()).toSequence() + 1);
                }
                default -> onNumbered();
            }
        } catch (IndexOutOfBoundsException | IllegalArgumentException lies) {
            throw malformedMessage();
        }
    }

    private void onHeartbeat(HeartbeatDecoder heartbeat) throws IOException {
        if (heartbeat.nextSequence() > next) {
            requestMissing(heartbeat.nextSequence() - 1);
        }
        // The gateway sends one in each interval, so the answers arrive in time.
        var frame = new UnsafeBuffer(new byte[MAX_REQUEST_BYTES]);
        sendControl(wrap(new HeartbeatEncoder(), frame).nextSequence(0), frame);
    }

    private void onNumbered() throws IOException {
        long sequence = received.getLong(SEQUENCE_OFFSET, ByteOrder.LITTLE_ENDIAN);
        if (sequence < next) {
            return;
        }
        if (sequence > next) {
            if (early.isEmpty()) {
                requestMissing(sequence - 1);
            }
            byte[] copy = new byte[received.capacity()];
            received.getBytes(0, copy);
            early.put(sequence, copy);
            return;
        }
        deliver();
        deliverEarly();
    }

    private void requestMissing(long last) throws IOException {
        var frame = new UnsafeBuffer(new byte[MAX_REQUEST_BYTES]);
        sendControl(wrap(new RetransmitRequestEncoder(), frame).fromSequence(next).toSequence(last), frame);
    }

    /** Goes on with message `number`, if the messages before it cannot be had. */
    private void skipTo(long number) {
        if (number > next) {
            next = number;
            handler.onLost();
            deliverEarly();
        }
    }

    private void deliverEarly() {
        while (!early.isEmpty() && early.firstKey() <= next) {
            var first = early.pollFirstEntry();
            if (first.getKey() == next) {
                received.wrap(first.getValue());
                header.wrap(received, 0);
                deliver();
            }
        }
    }

    /** Passes the received message to the handler. */
    private void deliver() {
        next++;
        switch (header.templateId()) {
            case OrderAcceptedDecoder.TEMPLATE_ID -> handler.onOrderAccepted(decode(orderAccepted));
            case ExecutionReportDecoder.TEMPLATE_ID -> handler.onExecutionReport(decode(executionReport));
            case RejectDecoder.TEMPLATE_ID -> handler.onReject(decode(new RejectDecoder()));
            case MassCancelAcceptedDecoder.TEMPLATE_ID ->
                handler.onMassCancelAccepted(decode(new MassCancelAcceptedDecoder()));
            case BestPricesDecoder.TEMPLATE_ID -> handler.onBestPrices(decode(new BestPricesDecoder()));
            case VwapDecoder.TEMPLATE_ID -> handler.onVwap(decode(new VwapDecoder()));
            case BookDecoder.TEMPLATE_ID -> handler.onBook(decode(new BookDecoder()));
            case InstrumentStatusDecoder.TEMPLATE_ID ->
                handler.onInstrumentStatus(decode(new InstrumentStatusDecoder()));
            case ReportsLostDecoder.TEMPLATE_ID -> handler.onLost();
            default -> { }
        }
        boolean isAnswer = header.templateId() != ExecutionReportDecoder.TEMPLATE_ID
            && header.templateId() != ReportsLostDecoder.TEMPLATE_ID;
        if (isAnswer) {
            synchronized (lock) {
                unanswered.remove(received.getLong(REQUEST_ID_OFFSET, ByteOrder.LITTLE_ENDIAN));
            }
        }
    }

    private <D extends MessageDecoderFlyweight> D decode(D message) {
        if (header.blockLength() < message.sbeBlockLength()) {
            throw malformed("a block of " + header.blockLength() + " bytes in template "
                + header.templateId() + ", expected " + message.sbeBlockLength());
        }
        message.wrap(received, MessageHeaderDecoder.ENCODED_LENGTH, header.blockLength(),
            header.version());
        return message;
    }
}
