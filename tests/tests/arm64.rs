//! What the Arm64 build of the driver promises, read from its file: nothing here runs it.

use e2e::target_folder;
use lab_image::Image;

/// `mrs x0, s3_0_c15_c5_0`: CLUSTERPMCR_EL1, which firmware may keep from the kernel.
const READ_CLUSTER_CONTROL: u32 = 0xD538_F500;
/// In a scope table of `__C_specific_handler`: every exception goes on at the target.
const ALWAYS: u32 = 1;

fn words<const N: usize>(bytes: &[u8]) -> Option<[u32; N]> {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_le_bytes(bytes.try_into().ok()?);
    }
    (bytes.len() >= 4 * N).then_some(words)
}

#[test]
fn the_register_that_firmware_may_refuse_is_first_read_where_an_exception_is_caught() {
    let path = target_folder().join("drivers/aarch64/wperf-driver.sys");
    let file = std::fs::read(&path).expect("built by `cargo xtask drivers`");
    let image = Image::parse(&file).expect("a driver");
    // One entry: begin, end, filter, target. The target is behind the branch that jumps over it.
    let tables = (0..file.len())
        .step_by(4)
        .filter_map(|at| words(&file[at..]));
    let is_guard = |[count, begin, end, filter, target]: &[u32; 5]| {
        let reads = image.stored_from(*begin).and_then(words);
        (*count, *filter) == (1, ALWAYS)
            && Some(*end) == begin.checked_add(4)
            && Some(*target) == end.checked_add(4)
            && reads == Some([READ_CLUSTER_CONTROL])
    };
    assert_eq!(tables.filter(is_guard).count(), 1);
    let imports = image.imports();
    assert!(
        imports
            .iter()
            .any(|import| format!("{import:?}").contains("__C_specific_handler"))
    );
}
