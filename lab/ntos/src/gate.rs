//! System calls of driver code, where the host's filter refuses them.
#![expect(unsafe_code, reason = "a signal handler")]

use crate::fault;
use crate::machine::try_current;

/// Makes a system call of driver code a finding. Whoever installs a filter that answers with `SIGSYS` calls this first;
/// a call of the lab's own that is refused still ends the process.
pub fn catch_system_calls() {
    fault::install_handler(libc::SIGSYS, on_refusal);
}

unsafe extern "C" fn on_refusal(
    signal: i32,
    _info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes a valid context to an SA_SIGINFO handler; it is ours until we return.
    let context = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext };
    let caught = try_current().is_some_and(|machine| machine.on_watchdog(signal, context));
    if !caught {
        // SAFETY: restoring the default action has no preconditions.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        // SAFETY: likewise sending oneself a signal: it ends the process as the filter would have.
        unsafe { libc::raise(signal) };
    }
}
