//! Where the linker puts what sites leave behind, and the labels around it.
#![cfg_attr(
    all(not(miri), any(flavour = "cold", flavour = "all")),
    expect(unsafe_code, reason = "names labels of the linker")
)]

use crate::recorder::Switch;
use trace_format::view::SectionView;

#[cfg(all(windows, any(flavour = "cold", flavour = "all")))]
core::arch::global_asm!(
    ".pushsection PAGETRC$a,\"dr\"",
    ".globl drydock_trace_directory",
    "drydock_trace_directory:",
    ".ascii \"DRYTRACE\"",
    ".long 1",
    ".long drydock_trace_events@IMGREL",
    ".long drydock_trace_events_end@IMGREL",
    ".long drydock_trace_tests@IMGREL",
    ".long drydock_trace_tests_end@IMGREL",
    ".long drydock_trace_switches@IMGREL",
    ".long drydock_trace_switches_end@IMGREL",
    ".popsection",
    ".pushsection PAGETRC$l,\"dr\"",
    ".p2align 2",
    ".long 0",
    "drydock_trace_events:",
    ".popsection",
    ".pushsection PAGETRC$md,\"dr\"",
    ".p2align 2",
    "drydock_trace_events_end:",
    ".long 0",
    "drydock_trace_tests:",
    ".popsection",
    ".pushsection PAGETRC$z,\"dr\"",
    ".p2align 2",
    ".globl drydock_trace_tests_end",
    "drydock_trace_tests_end:",
    ".long 0",
    ".popsection",
    ".pushsection .tren$a,\"dw\"",
    ".p2align 2",
    // The linker drops labels in sections of no bytes.
    ".long 0",
    ".globl drydock_trace_switches",
    "drydock_trace_switches:",
    ".popsection",
    ".pushsection .tren$z,\"dw\"",
    ".p2align 2",
    ".globl drydock_trace_switches_end",
    "drydock_trace_switches_end:",
    ".long 0",
    ".popsection",
);

// Off Windows, the linker makes labels around sections whose names are C identifiers.
#[cfg(all(not(windows), not(miri), any(flavour = "cold", flavour = "all")))]
core::arch::global_asm!(
    ".pushsection drydock_switches,\"aw\"",
    ".p2align 2",
    ".popsection",
    ".globl drydock_trace_switches",
    ".hidden __start_drydock_switches",
    ".hidden __stop_drydock_switches",
    ".set drydock_trace_switches, __start_drydock_switches",
    ".globl drydock_trace_switches_end",
    ".set drydock_trace_switches_end, __stop_drydock_switches",
);

/// The first switch, and the end of the last.
#[cfg(all(not(miri), any(flavour = "cold", flavour = "all")))]
pub(crate) fn switches() -> (*const Switch, *const Switch) {
    #[cfg(windows)]
    unsafe extern "C" {
        #[link_name = "drydock_trace_switches"]
        static FIRST: Switch;
        #[link_name = "drydock_trace_switches_end"]
        static END: Switch;
    }
    #[cfg(not(windows))]
    unsafe extern "C" {
        #[link_name = "__start_drydock_switches"]
        static FIRST: Switch;
        #[link_name = "__stop_drydock_switches"]
        static END: Switch;
    }
    (&raw const FIRST, &raw const END)
}

/// A flavour that records nothing has no switches, and an interpreter no sections.
#[cfg(not(all(not(miri), any(flavour = "cold", flavour = "all"))))]
pub(crate) fn switches() -> (*const Switch, *const Switch) {
    let nothing = core::ptr::NonNull::<Switch>::dangling()
        .as_ptr()
        .cast_const();
    (nothing, nothing)
}

/// The events of this driver as its file describes them; `None` if there are none. They may be paged out.
///
/// IRQL: `PASSIVE_LEVEL`.
#[cfg(all(windows, any(flavour = "cold", flavour = "all")))]
#[must_use]
pub fn metadata() -> Option<SectionView<'static>> {
    unsafe extern "C" {
        safe static __ImageBase: u8;
        safe static drydock_trace_directory: u8;
        safe static drydock_trace_tests_end: u8;
    }
    let base = (&raw const __ImageBase).addr();
    let start = &raw const drydock_trace_directory;
    let end = (&raw const drydock_trace_tests_end).addr();
    // SAFETY: the linker puts all of it into one section, which is loaded as long as this code, and which
    // nothing writes to.
    let bytes = unsafe { core::slice::from_raw_parts(start, end.checked_sub(start.addr())?) };
    SectionView::read(bytes, u32::try_from(start.addr().checked_sub(base)?).ok()?)
}

/// Elsewhere nothing describes events.
#[cfg(not(all(windows, any(flavour = "cold", flavour = "all"))))]
#[must_use]
pub fn metadata() -> Option<SectionView<'static>> {
    None
}
