//! For each rule something that breaks it, and something that comes close and does not.
#![expect(
    unsafe_code,
    reason = "a driver without the safe API, because it has to break rules"
)]
#![expect(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "nothing here is safe: the lab is there to catch it"
)]
#![expect(
    clippy::cast_possible_truncation,
    clippy::manual_dangling_ptr,
    reason = "sizes of structures fit, and bad addresses are meant"
)]

mod correct;
mod dispatcher;
mod integrity;
mod irp;
mod irql;
mod left;
mod locks;
mod memory;
mod objects;
mod pool;
mod security;
mod tools;

use nt::NTSTATUS;
use nt::irp::{DEVICE_OBJECT, DRIVER_OBJECT, IRP};
use nt::status::STATUS_SUCCESS;

pub(crate) use integrity::set_handlers;
pub(crate) use tools::Shared;

/// A request and whom it is for.
pub(crate) struct Request {
    pub(crate) driver: *mut DRIVER_OBJECT,
    pub(crate) device: *mut DEVICE_OBJECT,
    /// The device that requests can be passed on to.
    pub(crate) lower: *mut DEVICE_OBJECT,
    pub(crate) irp: *mut IRP,
}

/// What breaks a rule, or comes close.
#[derive(Clone, Copy)]
pub(crate) enum Act {
    /// The request is completed afterwards.
    Plain(unsafe fn()),
    /// As [`Self::Plain`], with the request at hand.
    With(unsafe fn(&Request)),
    /// Completes the request itself and gives what to return.
    Whole(unsafe fn(&Request) -> NTSTATUS),
}

/// A rule and its pair.
struct Pair {
    rule: &'static str,
    broken: Act,
    near: Act,
}

/// `"rule": kind broken, near;` for each rule of a file.
macro_rules! pairs {
    ($($rule:literal: $kind:ident $broken:ident, $near:ident;)*) => {
        pub(super) const PAIRS: &[super::Pair] = &[$(
            super::Pair {
                rule: $rule,
                broken: super::Act::$kind($broken),
                near: super::Act::$kind($near),
            },
        )*];
    };
}
use pairs;

const ALL: [&[Pair]; 9] = [
    pool::PAIRS,
    irql::PAIRS,
    locks::PAIRS,
    irp::PAIRS,
    objects::PAIRS,
    dispatcher::PAIRS,
    left::PAIRS,
    memory::PAIRS,
    security::PAIRS,
];

/// What breaks a rule, or comes close to it.
pub(crate) fn find(rule: &[u8], broken: bool) -> Option<Act> {
    let pair = ALL
        .iter()
        .flat_map(|pairs| pairs.iter())
        .find(|pair| pair.rule.as_bytes() == rule)?;
    Some(if broken { pair.broken } else { pair.near })
}

/// Something unusual and right.
pub(crate) fn find_correct(name: &[u8]) -> Option<Act> {
    let ways = correct::WAYS.iter();
    let mut named = ways.filter(|(way, _)| way.as_bytes() == name);
    named.next().map(|(_, act)| *act)
}

/// Does it, and completes the request.
pub(crate) unsafe fn perform(act: Act, request: &Request) -> NTSTATUS {
    unsafe {
        match act {
            Act::Plain(act) => act(),
            Act::With(act) => act(request),
            Act::Whole(act) => return act(request),
        }
        tools::complete(request.irp, STATUS_SUCCESS, 0)
    }
}

/// What the lower device does with a request.
pub(crate) unsafe fn lower(device: *mut DEVICE_OBJECT, irp: *mut IRP) -> NTSTATUS {
    unsafe { irp::lower(device, irp) }
}

/// Leaves a request pending; it may be cancelled if there is a routine for that.
pub(crate) unsafe fn pend(irp: *mut IRP, cancelable: bool) -> NTSTATUS {
    unsafe { irp::pend(irp, cancelable) }
}
