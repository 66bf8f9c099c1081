//! Which cores share a DynamIQ Shared Unit.
//!
//! Source: Arm ARM DDI 0487 D24.2 (MPIDR_EL1: MT in 24; Aff0 in 7:0, Aff1 in 15:8, Aff2 in 23:16, Aff3
//! in 39:32); DSU TRM 100453: the cluster is Aff2 and Aff3 of its cores.

/// What is the same for all cores of a cluster, and for no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cluster(u64);

impl Cluster {
    /// Of the core that has this MPIDR_EL1.
    #[must_use]
    pub const fn of(mpidr: u64) -> Self {
        const MULTITHREADED: u64 = 1 << 24;
        const AFF3_AFF2: u64 = 0xFF_00FF_0000;
        const AFF1: u64 = 0xFF00;
        // Cores of a DSU say that their lowest level is threads, even with one thread each.
        let mask = if mpidr & MULTITHREADED != 0 {
            AFF3_AFF2
        } else {
            AFF3_AFF2 | AFF1
        };
        Self(mpidr & mask)
    }

    /// As a number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_of_a_cluster_differ_in_core_and_thread_only() {
        let core = |cluster: u64, core: u64| 1 << 31 | 1 << 24 | cluster << 16 | core << 8;
        assert_eq!(Cluster::of(core(1, 0)), Cluster::of(core(1, 7)));
        assert_ne!(Cluster::of(core(1, 0)), Cluster::of(core(2, 0)));
        assert_ne!(Cluster::of(core(1, 0)), Cluster::of(core(1, 0) | 1 << 32));
        let without_threads = |cluster: u64, core: u64| 1 << 31 | cluster << 8 | core;
        assert_eq!(
            Cluster::of(without_threads(3, 0)),
            Cluster::of(without_threads(3, 1))
        );
        assert_ne!(
            Cluster::of(without_threads(3, 0)),
            Cluster::of(without_threads(2, 0))
        );
    }
}
