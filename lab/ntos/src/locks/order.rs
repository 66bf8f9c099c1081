//! The order in which locks are acquired: what could deadlock, without waiting for it to happen.
//!
//! An edge says that one lock was acquired, by a call that waits, while
//! another was held. A circle of edges is a deadlock that can happen, unless
//! a lock on it is only read, or all of the circle happens under another lock.

use std::collections::HashMap;

/// How a lock is held or wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

/// One lock acquired under another.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) from: u64,
    pub(crate) held: Mode,
    pub(crate) to: u64,
    pub(crate) wanted: Mode,
    /// Other locks that were held exclusively.
    gates: Vec<u64>,
    /// Return addresses of the acquisition of `to`, innermost first.
    pub(crate) stack: Vec<u64>,
    /// Where `from` was acquired.
    pub(crate) site: u64,
}

impl Edge {
    pub(crate) fn new(
        (from, held): (u64, Mode),
        (to, wanted): (u64, Mode),
        gates: Vec<u64>,
        site: u64,
    ) -> Self {
        let stack = Vec::new();
        Self {
            from,
            held,
            to,
            wanted,
            gates,
            stack,
            site,
        }
    }

    /// Whether another edge of the same locks says at least as much.
    fn covers(&self, other: &Self) -> bool {
        (self.to, self.held, self.wanted) == (other.to, other.held, other.wanted)
            && self.gates.iter().all(|gate| other.gates.contains(gate))
    }

    /// Whether `next` can wait for the holder of what this edge wants.
    fn meets(&self, next: &Self) -> bool {
        self.to == next.from && (self.wanted == Mode::Exclusive || next.held == Mode::Exclusive)
    }

    /// Whether both can happen at once.
    fn coexists(&self, other: &Self) -> bool {
        !self.gates.iter().any(|gate| other.gates.contains(gate))
    }
}

/// Edges by the lock that was held.
#[derive(Default)]
pub(crate) struct Order {
    edges: HashMap<u64, Vec<Edge>>,
}

impl Order {
    /// Whether an edge says nothing new.
    pub(crate) fn knows(&self, edge: &Edge) -> bool {
        self.edges
            .get(&edge.from)
            .is_some_and(|known| known.iter().any(|known| known.covers(edge)))
    }

    pub(crate) fn add(&mut self, edge: Edge) {
        self.edges.entry(edge.from).or_default().push(edge);
    }

    /// The edges that close a circle with a new one, in order; none when there is no circle.
    pub(crate) fn circle(&self, edge: &Edge) -> Option<Vec<Edge>> {
        let mut path = vec![edge.clone()];
        self.search(&mut path).then(|| path.split_off(1))
    }

    fn search(&self, path: &mut Vec<Edge>) -> bool {
        let last = path[path.len() - 1].clone();
        if path.len() > 1 && last.meets(&path[0]) {
            return true;
        }
        let Some(next) = self.edges.get(&last.to) else {
            return false;
        };
        for edge in next {
            let fits = last.meets(edge)
                && path.iter().all(|other| other.coexists(edge))
                && path[1..].iter().all(|other| other.from != edge.from);
            if fits {
                path.push(edge.clone());
                if self.search(path) {
                    return true;
                }
                path.pop();
            }
        }
        false
    }

    /// Forgets the locks in memory that is used for something else from now on.
    pub(crate) fn forget(&mut self, range: &std::ops::Range<u64>) {
        if self.edges.is_empty() {
            return;
        }
        self.edges.retain(|from, edges| {
            edges.retain(|edge| !range.contains(&edge.to));
            !range.contains(from) && !edges.is_empty()
        });
    }

    pub(crate) fn clear(&mut self) {
        self.edges.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::Mode::{Exclusive, Shared};
    use super::*;

    fn edge(from: u64, to: u64) -> Edge {
        Edge::new((from, Exclusive), (to, Exclusive), Vec::new(), 0)
    }

    fn order(edges: &[Edge]) -> Order {
        let mut order = Order::default();
        edges.iter().cloned().for_each(|edge| order.add(edge));
        order
    }

    #[test]
    fn the_opposite_order_closes_a_circle_and_the_same_one_does_not() {
        let order = order(&[edge(1, 2), edge(2, 3)]);
        assert!(order.circle(&edge(1, 3)).is_none());
        let circle = order.circle(&edge(3, 1)).expect("a circle of three");
        let locks: Vec<u64> = circle.iter().map(|edge| edge.from).collect();
        assert_eq!(locks, [1, 2]);
    }

    #[test]
    fn readers_do_not_wait_for_each_other() {
        let known = Edge::new((1, Shared), (2, Shared), Vec::new(), 0);
        let order = order(&[known]);
        let back = |held, wanted| Edge::new((2, held), (1, wanted), Vec::new(), 0);
        assert!(order.circle(&back(Shared, Shared)).is_none());
        assert!(order.circle(&back(Exclusive, Shared)).is_none());
        assert!(order.circle(&back(Exclusive, Exclusive)).is_some());
    }

    #[test]
    fn a_lock_around_both_orders_makes_them_safe() {
        let gated = |from, to, gates: &[u64]| {
            Edge::new((from, Exclusive), (to, Exclusive), gates.to_vec(), 0)
        };
        let order = order(&[gated(1, 2, &[9])]);
        assert!(order.circle(&gated(2, 1, &[9])).is_none());
        assert!(order.circle(&gated(2, 1, &[8])).is_some());
    }

    #[test]
    fn an_edge_with_fewer_gates_is_news_and_one_with_more_is_not() {
        let gated = |gates: &[u64]| Edge::new((1, Exclusive), (2, Exclusive), gates.to_vec(), 0);
        let order = order(&[gated(&[9])]);
        assert!(order.knows(&gated(&[9, 8])));
        assert!(!order.knows(&gated(&[])));
    }

    #[test]
    fn freed_locks_are_forgotten() {
        let mut order = order(&[edge(0x10, 0x20), edge(0x30, 0x10)]);
        order.forget(&(0x10..0x18));
        assert!(order.edges.is_empty());
    }
}
