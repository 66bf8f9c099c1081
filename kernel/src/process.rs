//! The current process and thread.
#![expect(unsafe_code, reason = "calls the kernel")]

/// Id of the process in whose context the caller runs.
///
/// In a dispatch routine of a device with nothing above it, that is the process of the request.
///
/// IRQL: any.
/// Source: `PsGetCurrentProcessId`, ntddk.h.
pub fn current_id() -> u32 {
    // SAFETY: takes nothing and may be called anywhere.
    let id = unsafe { nt::ps::PsGetCurrentProcessId() };
    // Process ids are small multiples of four, handed out as handles.
    u32::try_from(id.addr()).unwrap_or(u32::MAX)
}

/// Id of the thread that the caller runs on; in an interrupt, of the one that is interrupted.
///
/// IRQL: any.
/// Source: `PsGetCurrentThreadId`, ntddk.h.
pub fn current_thread_id() -> u32 {
    // SAFETY: takes nothing and may be called anywhere.
    let id = unsafe { nt::ps::PsGetCurrentThreadId() };
    // Like process ids.
    u32::try_from(id.addr()).unwrap_or(u32::MAX)
}
