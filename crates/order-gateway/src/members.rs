//! The members of a gateway: which clients share a connection to the venue.
//!
//! Does        counts the clients of each member and its requests at the venue, and remembers the
//!             connection that carries them.
//! Holds       1. two members never share a connection. The venue answers the requests of one
//!                connection in order and after each long answer, and limits its rate, its time and
//!                its unread bytes. With [`SharedConnection::OfAll`] there is one member only;
//!             2. a member without clients and without requests at the venue has no connection.
//! Start at    [`Members::join`].

use std::collections::HashMap;

use pitwire_net::ConnectionId;

/// Requests of one member without an answer. Above it, each of its clients has one more.
const IN_FLIGHT_MAX: usize = 512;

/// Which clients share a connection to the venue for their requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SharedConnection {
    /// Those of one client id.
    #[default]
    OfClientId,
    /// All. One client can hold up the others, so this is for clients of one owner.
    OfAll,
}

/// The clients that share a connection to the venue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MemberName {
    /// The clients without a login at this IP address.
    Address(String),
    /// The clients with a login of this client id.
    ClientId(String),
    /// One client that logged in with a refresh token of another connection. Its client id is
    /// unknown here.
    Client(ConnectionId),
    /// All clients.
    All,
}

/// Number of a member. No later member gets the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MemberId(pub u64);

#[derive(Debug)]
struct Member {
    name: MemberName,
    clients: usize,
    /// The connection to the venue, from the first request on.
    link: Option<ConnectionId>,
    /// Requests at the venue.
    in_flight: usize,
    /// More than 64 KiB of requests wait for the venue.
    is_full: bool,
}

/// All members that have a client, or a request at the venue.
#[derive(Debug, Default)]
pub(crate) struct Members {
    ids: HashMap<MemberName, MemberId>,
    members: HashMap<MemberId, Member>,
    last_id: u64,
    sharing: SharedConnection,
}

impl Members {
    pub fn new(sharing: SharedConnection) -> Self {
        Members { sharing, ..Members::default() }
    }

    /// Adds a client to the member with this name, or to the only one.
    pub fn join(&mut self, name: MemberName) -> MemberId {
        let name = match self.sharing {
            SharedConnection::OfClientId => name,
            SharedConnection::OfAll => MemberName::All,
        };
        let id = *self.ids.entry(name.clone()).or_insert_with(|| {
            self.last_id += 1;
            MemberId(self.last_id)
        });
        let new = || Member { name, clients: 0, link: None, in_flight: 0, is_full: false };
        self.members.entry(id).or_insert_with(new).clients += 1;
        id
    }

    /// Removes a client from its member. Call [`Self::take_unused`] then.
    pub fn leave(&mut self, id: MemberId) {
        if let Some(member) = self.members.get_mut(&id) {
            member.clients -= 1;
        }
    }

    /// Returns the connection of a member.
    pub fn link(&self, id: MemberId) -> Option<ConnectionId> {
        self.members.get(&id)?.link
    }

    pub fn set_link(&mut self, id: MemberId, link: ConnectionId) {
        if let Some(member) = self.members.get_mut(&id) {
            (member.link, member.is_full) = (Some(link), false);
        }
    }

    /// Notes whether more than 64 KiB of requests wait for the venue.
    pub fn set_full(&mut self, id: MemberId, is_full: bool) {
        if let Some(member) = self.members.get_mut(&id) {
            member.is_full = is_full;
        }
    }

    /// Counts a request that goes to the venue. Returns whether the next request of its client has
    /// to wait for the answer.
    pub fn count_request(&mut self, id: MemberId) -> bool {
        let Some(member) = self.members.get_mut(&id) else { return false };
        member.in_flight += 1;
        member.is_full || member.in_flight > IN_FLIGHT_MAX
    }

    /// Counts an answer of the venue. Call [`Self::take_unused`] then.
    pub fn count_answer(&mut self, id: MemberId) {
        if let Some(member) = self.members.get_mut(&id) {
            member.in_flight -= 1;
        }
    }

    /// Forgets a member without clients and requests. Returns its connection, which has to be
    /// closed.
    pub fn take_unused(&mut self, id: MemberId) -> Option<ConnectionId> {
        let member = self.members.get(&id)?;
        if member.clients > 0 || member.in_flight > 0 {
            return None;
        }
        let member = self.members.remove(&id)?;
        self.ids.remove(&member.name);
        member.link
    }

    /// Forgets the connection of a member, and the requests over it.
    pub fn lose_link(&mut self, id: MemberId) {
        if let Some(member) = self.members.get_mut(&id) {
            (member.link, member.in_flight) = (None, 0);
        }
        self.take_unused(id);
    }

    /// Forgets all connections, and the requests over them. Returns the connections.
    pub fn lose_links(&mut self) -> Vec<ConnectionId> {
        let links = self.members.iter().filter_map(|(id, member)| Some((*id, member.link?)));
        let links: Vec<(MemberId, ConnectionId)> = links.collect();
        links.iter().for_each(|(id, _)| self.lose_link(*id));
        links.into_iter().map(|(_, link)| link).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client_id(name: &str) -> MemberName {
        MemberName::ClientId(name.into())
    }

    #[test]
    fn clients_of_one_name_are_one_member() {
        let mut members = Members::default();
        let one = members.join(client_id("a"));
        assert_eq!(members.join(client_id("a")), one);
        let others = [client_id("b"), MemberName::Address("a".into()), MemberName::Client(ConnectionId(1))];
        assert!(others.into_iter().all(|name| members.join(name) != one));
    }

    #[test]
    fn all_clients_are_one_member_if_they_share_a_connection() {
        let mut members = Members::new(SharedConnection::OfAll);
        let one = members.join(client_id("a"));
        let others = [client_id("b"), MemberName::Address("a".into()), MemberName::Client(ConnectionId(1))];
        assert!(others.into_iter().all(|name| members.join(name) == one));
    }

    #[test]
    fn link_is_released_after_the_last_client_and_the_last_answer() {
        let mut members = Members::default();
        let (link, id) = (ConnectionId(7), members.join(client_id("a")));
        members.join(client_id("a"));
        members.set_link(id, link);
        assert!(!members.count_request(id));
        members.leave(id);
        members.leave(id);
        assert_eq!(members.take_unused(id), None, "a request is at the venue");
        members.count_answer(id);
        let next = members.join(client_id("a"));
        assert_eq!((next, members.take_unused(id)), (id, None), "a client is back");
        members.leave(id);
        assert_eq!(members.take_unused(id), Some(link));
        assert_ne!(members.join(client_id("a")), id);
    }

    #[test]
    fn requests_of_a_member_at_the_venue_are_bounded() {
        let mut members = Members::default();
        let [one, two] = ["a", "b"].map(|name| members.join(client_id(name)));
        assert!((0..IN_FLIGHT_MAX).all(|_| !members.count_request(one)));
        assert!(members.count_request(one) && !members.count_request(two));
        (0..2).for_each(|_| members.count_answer(one));
        assert!(!members.count_request(one));
        members.set_full(two, true);
        assert!(members.count_request(two), "its connection is full");
    }

    #[test]
    fn requests_over_a_lost_link_count_no_more() {
        let mut members = Members::default();
        let [stays, gone] = ["a", "b"].map(|name| members.join(client_id(name)));
        for (number, id) in [(1, stays), (2, gone)] {
            members.set_link(id, ConnectionId(number));
            members.count_request(id);
        }
        members.leave(gone);
        let mut links = members.lose_links();
        links.sort_unstable();
        assert_eq!(links, [ConnectionId(1), ConnectionId(2)]);
        assert_eq!(members.link(stays), None);
        assert_ne!(members.join(client_id("b")), gone, "it is forgotten");
        assert_eq!(members.join(client_id("a")), stays);
    }
}
