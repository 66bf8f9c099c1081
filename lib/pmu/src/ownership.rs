//! Who holds which core, or which uncore unit: a table for each, and one for the numbers of sessions.
//!
//! A [`Session`] belongs to one open handle and remembers which cores it was given; the table knows
//! who holds each core now. Where the two differ, the core was taken by force, and the session is
//! told at its next call on it. So nobody needs to find another's session, and a handle that closes
//! late cannot be mistaken for a new one: session numbers are never used twice.

use core::num::NonZeroU64;
use core::ops::{Deref, DerefMut};
use wperf_abi::request::AcquireHow;
use wperf_abi::{CoreSet, MAX_CORES, Refusal};

/// Number of a session, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionId(NonZeroU64);

impl SessionId {
    /// As a number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

/// Who holds a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Whose session.
    pub session: SessionId,
    /// Process that acquired it.
    pub pid: u32,
    /// When. Units: 100 ns since 1601, UTC.
    pub since: u64,
}

/// What a session was given.
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    given: [u64; MAX_CORES / 64],
}

impl Session {
    /// Its number.
    #[must_use]
    pub const fn id(&self) -> SessionId {
        self.id
    }

    /// The same session with another table: of units, when this one is of cores. It was given nothing there yet.
    #[must_use]
    pub const fn elsewhere(&self) -> Self {
        Self {
            id: self.id,
            given: [0; MAX_CORES / 64],
        }
    }

    fn was_given(&self, core: u32) -> bool {
        self.given
            .get(core as usize / 64)
            .is_some_and(|word| word >> (core % 64) & 1 != 0)
    }

    fn set_given(&mut self, core: u32, given: bool) {
        if let Some(word) = self.given.get_mut(core as usize / 64) {
            *word = *word & !(1 << (core % 64)) | u64::from(given) << (core % 64);
        }
    }
}

/// A core that somebody else holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyCore {
    /// Which.
    pub core: u32,
    /// Who.
    pub holder: Holder,
}

/// The holder of each core. `S` is the storage, one place per core.
#[derive(Debug)]
pub struct Ownership<S> {
    holders: S,
    next: NonZeroU64,
}

impl<S: Deref<Target = [Option<Holder>]> + DerefMut> Ownership<S> {
    /// Over storage with one place per core, all `None`.
    pub const fn new(holders: S) -> Self {
        Self {
            holders,
            next: NonZeroU64::MIN,
        }
    }

    /// A session that holds nothing yet.
    pub fn open(&mut self) -> Session {
        let id = SessionId(self.next);
        // 2^64 opens do not happen.
        self.next = self.next.saturating_add(1);
        Session {
            id,
            given: [0; MAX_CORES / 64],
        }
    }

    /// Who holds a core.
    #[must_use]
    pub fn holder(&self, core: u32) -> Option<Holder> {
        self.holders.get(core as usize).copied().flatten()
    }

    /// Whether nobody holds anything.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.holders.iter().all(Option::is_none)
    }

    /// The first core of the set that another session holds.
    #[must_use]
    pub fn conflict(&self, session: &Session, cores: CoreSet<'_>) -> Option<BusyCore> {
        cores.iter().find_map(|core| {
            let holder = self
                .holder(core)
                .filter(|holder| holder.session != session.id)?;
            Some(BusyCore { core, holder })
        })
    }

    /// Gives the set to the session: all of it or nothing.
    ///
    /// Cores it holds already keep their time of acquisition. Answers with the first core that was
    /// taken from another.
    ///
    /// Errors: the first core that another holds, unless `how` is by force.
    pub fn acquire(
        &mut self,
        session: &mut Session,
        cores: CoreSet<'_>,
        how: AcquireHow,
        (pid, now): (u32, u64),
    ) -> Result<Option<BusyCore>, BusyCore> {
        let conflict = self.conflict(session, cores);
        if let (Some(busy), AcquireHow::Normal) = (conflict, how) {
            return Err(busy);
        }
        for core in cores.iter() {
            let Some(place) = self.holders.get_mut(core as usize) else {
                continue;
            };
            if place.is_none_or(|holder| holder.session != session.id) {
                *place = Some(Holder {
                    session: session.id,
                    pid,
                    since: now,
                });
            }
            session.set_given(core, true);
        }
        Ok(conflict)
    }

    /// Whether the session may act on every core of the set.
    ///
    /// Errors: [`Refusal::ForcedOut`] once for cores that were taken by force, then
    /// [`Refusal::NotOwner`].
    pub fn check(&self, session: &mut Session, cores: CoreSet<'_>) -> Result<(), Refusal> {
        let mut verdict = Ok(());
        for core in cores.iter() {
            verdict = worse(verdict, self.check_core(session, core));
        }
        verdict
    }

    /// [`check`](Self::check) of one core.
    pub fn check_core(&self, session: &mut Session, core: u32) -> Result<(), Refusal> {
        if self
            .holder(core)
            .is_some_and(|holder| holder.session == session.id)
        {
            return Ok(());
        }
        if session.was_given(core) {
            session.set_given(core, false);
            return Err(Refusal::ForcedOut);
        }
        Err(Refusal::NotOwner)
    }

    /// Takes a core back from a session that holds it; whether it did.
    pub fn release(&mut self, session: &mut Session, core: u32) -> bool {
        session.set_given(core, false);
        let place = self.holders.get_mut(core as usize);
        let own = place.filter(|place| place.is_some_and(|holder| holder.session == session.id));
        own.map(Option::take).is_some()
    }
}

/// Being forced out is the more important news.
fn worse(a: Result<(), Refusal>, b: Result<(), Refusal>) -> Result<(), Refusal> {
    match (a, b) {
        (Err(Refusal::ForcedOut), _) | (_, Ok(())) => a,
        (_, Err(_)) => b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;
    use wperf_abi::client::encode_core_set;
    use wperf_abi::{Ioctl, Request};

    fn table() -> Ownership<Vec<Option<Holder>>> {
        Ownership::new(vec![None; 70])
    }

    fn with<R>(cores: &[u32], act: impl FnOnce(CoreSet<'_>) -> R) -> R {
        let input = encode_core_set(cores);
        let Ok(Request::Stop(set)) = Request::parse(Ioctl::Stop, &input, 70) else {
            panic!()
        };
        act(set)
    }

    fn acquire(
        table: &mut Ownership<Vec<Option<Holder>>>,
        session: &mut Session,
        cores: &[u32],
        how: AcquireHow,
    ) -> Result<Option<BusyCore>, BusyCore> {
        with(cores, |set| table.acquire(session, set, how, (7, 1000)))
    }

    #[test]
    fn a_set_is_given_whole_or_not_at_all_and_the_holder_is_named() {
        let mut table = table();
        let (mut a, mut b) = (table.open(), table.open());
        assert_eq!(
            acquire(&mut table, &mut a, &[1, 65], AcquireHow::Normal),
            Ok(None)
        );
        let busy = acquire(&mut table, &mut b, &[0, 65], AcquireHow::Normal).unwrap_err();
        assert_eq!((busy.core, busy.holder.session), (65, a.id()));
        assert_eq!((busy.holder.pid, busy.holder.since), (7, 1000));
        assert_eq!(table.holder(0), None);
    }

    #[test]
    fn disjoint_sets_have_different_holders_at_once() {
        let mut table = table();
        let (mut a, mut b) = (table.open(), table.open());
        assert_eq!(
            acquire(&mut table, &mut a, &[1], AcquireHow::Normal),
            Ok(None)
        );
        assert_eq!(
            acquire(&mut table, &mut b, &[2], AcquireHow::Normal),
            Ok(None)
        );
        assert_eq!(
            with(&[2], |set| table.check(&mut a, set)),
            Err(Refusal::NotOwner)
        );
        assert_eq!(with(&[2], |set| table.check(&mut b, set)), Ok(()));
    }

    #[test]
    fn the_former_owner_is_told_once() {
        let mut table = table();
        let (mut a, mut b, mut c) = (table.open(), table.open(), table.open());
        acquire(&mut table, &mut a, &[1, 2], AcquireHow::Normal).unwrap();
        let taken = acquire(&mut table, &mut b, &[2], AcquireHow::Force)
            .unwrap()
            .unwrap();
        assert_eq!((taken.core, taken.holder.session), (2, a.id()));
        acquire(&mut table, &mut c, &[2], AcquireHow::Force).unwrap();
        assert_eq!(
            with(&[1, 2], |set| table.check(&mut a, set)),
            Err(Refusal::ForcedOut)
        );
        assert_eq!(
            with(&[1, 2], |set| table.check(&mut a, set)),
            Err(Refusal::NotOwner)
        );
        assert_eq!(with(&[1], |set| table.check(&mut a, set)), Ok(()));
        assert_eq!(
            with(&[2], |set| table.check(&mut b, set)),
            Err(Refusal::ForcedOut)
        );
        assert_eq!(with(&[2], |set| table.check(&mut c, set)), Ok(()));
    }

    #[test]
    fn a_former_owner_that_closes_releases_nothing_of_the_new_one() {
        let mut table = table();
        let (mut a, mut b) = (table.open(), table.open());
        acquire(&mut table, &mut a, &[1, 2], AcquireHow::Normal).unwrap();
        acquire(&mut table, &mut b, &[2], AcquireHow::Force).unwrap();
        let released: Vec<_> = (0..70)
            .filter(|&core| table.release(&mut a, core))
            .collect();
        assert_eq!(released, [1]);
        assert_eq!(table.holder(2).unwrap().session, b.id());
        assert!(table.release(&mut b, 2) && table.is_idle());
    }

    #[test]
    fn acquiring_again_keeps_the_time() {
        let mut table = table();
        let mut a = table.open();
        acquire(&mut table, &mut a, &[1], AcquireHow::Normal).unwrap();
        with(&[1, 3], |set| {
            table.acquire(&mut a, set, AcquireHow::Normal, (7, 2000))
        })
        .unwrap();
        assert_eq!(table.holder(1).unwrap().since, 1000);
        assert_eq!(table.holder(3).unwrap().since, 2000);
    }
}
