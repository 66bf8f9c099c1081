//! The NT kernel's driver interface, declared once.
//!
//! Types carry the WDK's names and exact layouts; each export is declared by
//! the macro `image!` and expands to what every party needs: the import of a
//! driver, the obligation of the lab ("fill this table"), and the contract
//! that the verifier checks on every call.
//!
//! Layouts are those of 64-bit Windows (x86-64 and Arm64 agree on all of
//! them). They are ours: `windows-sys` and the mingw-w64 headers are test
//! oracles (`tests/layout.rs`), each wrong in places that the tests list.
#![no_std]
#![expect(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    missing_docs,
    reason = "names as in the WDK, where they are documented"
)]
#![expect(unsafe_code, reason = "declares foreign functions; calls none")]

#[macro_use]
mod macros;

pub mod base;
pub mod bitmap;
pub mod callbacks;
pub mod cm;
pub mod contract;
/// Only where the lab runs: a Rust driver has the compiler's own memory routines, which an import library must not replace.
#[cfg(not(windows))]
pub mod crt;
#[cfg(not(windows))]
pub mod crt_text;
pub mod data;
pub mod dbg;
pub mod etw;
pub mod ex;
pub mod hal;
pub mod interrupt;
pub mod io;
pub mod iomore;
pub mod irp;
pub mod ke;
pub mod kpcr;
pub mod lock;
pub mod mm;
pub mod names;
pub mod ob;
pub mod plugplay;
pub mod pnp;
pub mod po;
pub mod process;
pub mod ps;
pub mod queue;
pub mod remlock;
pub mod rtl;
pub mod se;
pub mod seh;
pub mod status;
pub mod stop;
pub mod sync;
pub mod sysinfo;
pub mod text;
pub mod token;
pub mod vm;
pub mod wmi;
pub mod zw;

pub use contract::{Contract, Effects, Export};
pub use data::Variable;
pub use status::NTSTATUS;

/// Every function this crate declares, with its contract.
pub fn contracts() -> impl Iterator<Item = &'static Contract> {
    [
        ke::CONTRACTS,
        interrupt::CONTRACTS,
        ex::CONTRACTS,
        io::CONTRACTS,
        mm::CONTRACTS,
        ob::CONTRACTS,
        ps::CONTRACTS,
        rtl::CONTRACTS,
        se::CONTRACTS,
        zw::CONTRACTS,
        hal::CONTRACTS,
        dbg::CONTRACTS,
        etw::CONTRACTS,
        cm::CONTRACTS,
        #[cfg(not(windows))]
        crt::CONTRACTS,
        pnp::CONTRACTS,
        po::CONTRACTS,
        remlock::CONTRACTS,
        lock::CONTRACTS,
        wmi::CONTRACTS,
        callbacks::CONTRACTS,
        names::CONTRACTS,
        token::CONTRACTS,
        queue::CONTRACTS,
        sysinfo::CONTRACTS,
        process::CONTRACTS,
        vm::CONTRACTS,
        sync::CONTRACTS,
        iomore::CONTRACTS,
        bitmap::CONTRACTS,
        text::CONTRACTS,
        #[cfg(not(windows))]
        crt_text::CONTRACTS,
        seh::CONTRACTS,
    ]
    .into_iter()
    .flatten()
}

/// The images whose exports this crate declares; of `wmilib.sys` those of `wmi`. `hal.dll` is a forwarder
/// to the kernel since Windows 10 2004.
pub const KERNEL_IMAGES: [&str; 3] = ["ntoskrnl.exe", "hal.dll", "wmilib.sys"];
