//! Confinement of commands that run a driver in this process.

/// Confines this process, unless somebody does not want it; says on standard error what is lacking.
pub(crate) fn unless(unconfined: bool) {
    if unconfined {
        return;
    }
    for remark in lab_check::sandbox::confine().remarks() {
        eprintln!("drydock: {remark}");
    }
}
