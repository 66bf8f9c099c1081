//! The exports of the kernel image: one module per prefix, each filling the
//! table that `nt` declares for it. They are thin: what they do is in the
//! machine's modules.

use std::panic::{AssertUnwindSafe, catch_unwind};

use lab_verifier::RuleId;
use nt::Export;

use crate::guest;
use crate::machine::current;

mod bitmap;
mod callbacks;
mod cm;
mod crt;
mod crt_text;
pub(crate) mod data;
mod dbg;
mod etw;
pub(crate) mod ex;
mod hal;
pub(crate) mod hal_dispatch;
mod interrupt;
pub(crate) mod io;
mod iomore;
mod ke;
mod lock;
mod mm;
mod names;
mod ob;
mod pnp;
pub(crate) mod po;
mod process;
mod ps;
pub(crate) mod queue;
pub(crate) mod remlock;
mod rtl;
mod se;
mod seh;
mod sync;
mod sysinfo;
mod text;
mod token;
mod vm;
mod wmi;
mod zw;

/// Every export, in the order of `nt::contracts()`.
pub(crate) fn all() -> impl Iterator<Item = Export> {
    ke::exports()
        .chain(interrupt::exports())
        .chain(ex::exports())
        .chain(io::exports())
        .chain(mm::exports())
        .chain(ob::exports())
        .chain(ps::exports())
        .chain(rtl::exports())
        .chain(se::exports())
        .chain(zw::exports())
        .chain(hal::exports())
        .chain(dbg::exports())
        .chain(etw::exports())
        .chain(cm::exports())
        .chain(crt::exports())
        .chain(pnp::exports())
        .chain(po::exports())
        .chain(remlock::exports())
        .chain(lock::exports())
        .chain(wmi::exports())
        .chain(callbacks::exports())
        .chain(names::exports())
        .chain(token::exports())
        .chain(queue::exports())
        .chain(sysinfo::exports())
        .chain(process::exports())
        .chain(vm::exports())
        .chain(sync::exports())
        .chain(iomore::exports())
        .chain(bitmap::exports())
        .chain(text::exports())
        .chain(crt_text::exports())
        .chain(seh::exports())
}

/// Runs the body of an export. A panic in it is a defect of the lab and must not reach the driver;
/// what is returned where an exception takes the place of the return is seen by nobody.
pub(crate) fn guard<R: Default>(body: impl FnOnce() -> R) -> R {
    guard_never(body).unwrap_or_default()
}

/// As [`guard`], for an export that never returns; `None` for an exception.
pub(crate) fn guard_never<R>(body: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => Some(result),
        Err(payload) if payload.is::<guest::Raised>() => None,
        Err(payload) => {
            let text = payload
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| payload.downcast_ref::<String>().cloned());
            let what = format!("the lab panicked: {}", text.unwrap_or_default());
            current().violate(RuleId::HostFault, [0; 4], what)
        }
    }
}

/// As [`attempt`](guest::attempt), for the whole of an export: an exception takes the place of its return.
pub(crate) fn touch<R: Copy + Default, F: FnOnce() -> R + Copy>(body: F) -> R {
    guest::attempt(body).unwrap_or_else(|fault| {
        current().raise_fault(fault);
        R::default()
    })
}

/// Reports arguments of a `Zw…` function that are addresses of a user program.
macro_rules! kernel_addresses {
    ($($pointer:ident),+) => {
        $crate::machine::current().check_zw_addresses(&[$($pointer as u64),+])
    };
}

/// Defines the exports of one table of `nt`.
macro_rules! exports {
    (
        $table:ident;
        $( fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block )*
        $( never $nname:ident($($narg:ident: $nty:ty),*) $nbody:block )*
    ) => {
        $(
            unsafe extern "efiapi" fn $name($($arg: $ty),*) $(-> $ret)? {
                $crate::exports::guard(move || $body)
            }
        )*
        $(
            unsafe extern "efiapi" fn $nname($($narg: $nty),*) -> ! {
                $crate::exports::guard_never(move || -> std::convert::Infallible { $nbody });
                unreachable!("the body does not return")
            }
        )*
        static TABLE: nt::$table::Table = nt::$table::Table { $($name,)* $($nname,)* };

        /// The filled table.
        pub(crate) fn exports() -> impl Iterator<Item = nt::Export> {
            TABLE.exports()
        }
    };
}

pub(crate) use exports;
pub(crate) use kernel_addresses;
