//! No bytes, however chosen, make the crate panic, loop or ask for more memory than an image may have.

use std::sync::Arc;

use lab_image::{Analysis, Image, Loader, MapOptions};
use proptest::prelude::*;

use crate::support::{ordinary, real_driver};

/// Takes bytes as far as they go.
fn try_everything(bytes: &[u8]) {
    let Ok(image) = Image::parse(bytes) else {
        return;
    };
    let _ = Analysis::for_report(&image);
    let options = MapOptions {
        bind: &mut |_| 1,
        routine: &mut |_| Some(2),
        kusd_alias: 3,
        cookie: 4,
    };
    if let Ok(mapped) = Loader::new(Arc::new(image)).map(options) {
        mapped.discard_init().unwrap();
    }
}

#[test]
fn a_file_cut_off_anywhere_in_its_sections_is_refused() {
    for bytes in [ordinary().build(), real_driver("x86_64").image] {
        let image = Image::parse(&bytes).unwrap();
        let stored = image
            .sections()
            .iter()
            .map(|s| s.file_offset + s.file_size)
            .max()
            .unwrap();
        for len in 0..stored as usize {
            assert!(
                Image::parse(&bytes[..len]).is_err(),
                "{len} of {} bytes",
                bytes.len()
            );
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        prop_assert!(Image::parse(&bytes).is_err());
    }

    #[test]
    fn changed_bytes_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..24),
        arm in any::<bool>(),
    ) {
        let mut bytes = real_driver(if arm { "aarch64" } else { "x86_64" }).image;
        for (index, value) in changes {
            let at = index.index(bytes.len());
            bytes[at] = value;
        }
        try_everything(&bytes);
    }

    /// Words at header fields are what leads a parser astray most easily.
    #[test]
    fn changed_header_words_never_panic(
        changes in prop::collection::vec(
            (0..0x400_usize / 4, prop_oneof![any::<u32>(), 0..0x2000_u32, Just(u32::MAX), Just(0x8000_0000)]),
            1..4,
        ),
    ) {
        let mut bytes = ordinary().build();
        for (word, value) in changes {
            bytes[4 * word..4 * word + 4].copy_from_slice(&value.to_le_bytes());
        }
        try_everything(&bytes);
    }

    #[test]
    fn arbitrary_code_never_panics(
        text in prop::collection::vec(prop_oneof![
            any::<u8>(),
            Just(0x0f), Just(0x32), Just(0xcc), Just(0x9c), Just(0xfa), Just(0xc3), Just(0xff),
        ], 1..0x300),
        split in any::<prop::sample::Index>(),
    ) {
        let mut file = crate::support::DriverFile::new(&text);
        let end = crate::support::TEXT + u32::try_from(split.index(text.len())).unwrap() + 1;
        file.functions = vec![(crate::support::TEXT, end)];
        try_everything(&file.build());
    }
}

#[test]
fn code_without_an_end_takes_linear_time() {
    // 16 MiB of `nop` in no function: a quadratic search would take hours.
    let mut file = crate::support::DriverFile::new(&[0xc3]);
    let flags = object::pe::IMAGE_SCN_MEM_EXECUTE | object::pe::IMAGE_SCN_MEM_READ;
    let mut nops = vec![0x90; 16 << 20];
    nops.extend_from_slice(&[0x0f, 0x32]);
    file.extra = vec![(b"PAGELONG", flags, nops)];
    let image = Image::parse(&file.build()).unwrap();
    let analysis = Analysis::for_loading(&image);
    assert!(analysis.sites().is_empty());
}
