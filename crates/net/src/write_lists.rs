//! The order in which a turn writes to its connections.
//!
//! Holds       1. connections that wait for an answer come first, then connections with notices and
//!                published messages, then the busy ones;
//!             2. within a list, connections that the last turn held back come first, so that each
//!                is written to after some turns, also if every turn stops early.
//! Start at    [`WriteLists::fill`].

use crate::connection_table::ConnectionTable;

/// Cost of one write besides its bytes, in bytes that could be copied meanwhile.
pub(crate) const WRITE_COST: usize = 8 * 1024;
/// Cost of the writes between two looks at the sockets. They take about 0.1 ms.
pub(crate) const PART_COST: usize = 128 * 1024;

/// Indexes of connections to write to.
#[derive(Debug, Default)]
pub(crate) struct WriteLists {
    /// Their requests were acted on in this turn.
    pub asking: Vec<usize>,
    /// They get notices, published messages, or the rest of an earlier answer.
    pub listening: Vec<usize>,
    /// They ask more than fits into a turn.
    pub busy: Vec<usize>,
}

impl WriteLists {
    /// Fills the lists with the listed connections.
    pub fn fill(&mut self, table: &ConnectionTable) {
        self.clear();
        for is_held_back in [true, false] {
            for at in &table.listed {
                let connection = table.connections.get(*at);
                let Some(connection) = connection.filter(|connection| connection.is_held_back() == is_held_back) else {
                    continue;
                };
                let list = match (connection.is_busy(), connection.has_asked()) {
                    (true, _) => &mut self.busy,
                    (false, true) => &mut self.asking,
                    (false, false) => &mut self.listening,
                };
                list.push(*at);
            }
        }
    }

    /// Empties the lists. Their memory is kept.
    pub fn clear(&mut self) {
        [&mut self.asking, &mut self.listening, &mut self.busy].into_iter().for_each(Vec::clear);
    }
}
