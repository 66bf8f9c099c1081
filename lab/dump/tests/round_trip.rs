//! What is written is what is read, by this reader and by another one; and whatever the bytes are, nothing panics.

use std::io::Cursor;

use kdmp_parser::{Gva, KernelDumpParser};
use lab_dump::layout::{FULL, HEADER_BYTES, PAGE};
use lab_dump::{Contents, Dump, DumpError, Memory, Module, Page, write};
use proptest::prelude::*;

/// Memory whose pages hold their own addresses, over and over.
struct Numbered(Vec<Page>);

impl Memory for Numbered {
    fn pages(&self) -> &[Page] {
        &self.0
    }
    fn read(&self, index: usize, to: &mut [u8; PAGE]) {
        for place in to.as_chunks_mut::<8>().0 {
            *place = self.0[index].address.to_le_bytes();
        }
    }
}

const TAG: [u8; 16] = *b"a tag of 16 byte";

fn memory(numbers: impl IntoIterator<Item = u64>) -> Numbered {
    let page = |number: u64| Page {
        address: number << 12,
        writable: number.is_multiple_of(2),
        executable: number.is_multiple_of(3),
    };
    Numbered(numbers.into_iter().map(page).collect())
}

fn contents() -> Contents {
    let mut context = vec![0; 0x4D0];
    // CONTEXT.Rip.
    context[0xF8..0x100].copy_from_slice(&0x7000_0123u64.to_le_bytes());
    let module = |name: &str, base| Module {
        name: name.into(),
        base,
        bytes: 0x3000,
        entry: base + 0x1000,
    };
    Contents {
        code: 0xE2,
        parameters: [1, 2, 3, u64::MAX],
        context,
        instruction: 0x7000_0123,
        build: 26100,
        processors: 4,
        system_time: 133_000_000_000_000_000,
        up_time: 12_345,
        comment: "made by a test".into(),
        modules: vec![
            module("one.sys", 0x7000_0000),
            module("two.sys", 0x7100_0000),
        ],
        blobs: vec![
            ([1; 16], vec![1; 13]),
            (TAG, vec![2; 21]),
            (TAG, vec![3; 8]),
        ],
    }
}

fn dump(contents: &Contents, memory: &Numbered) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(contents, memory, &mut bytes).expect("memory takes everything");
    bytes
}

#[test]
fn another_reader_finds_the_stop_the_registers_the_modules_and_the_memory() {
    let memory = memory((0x70000..0x70100).chain([0x7FFF_F7FF, 0xF_FFFF_7800_0000]));
    let bytes = dump(&contents(), &memory);
    let parser = KernelDumpParser::with_reader(Cursor::new(bytes)).expect("a dump");
    let header = parser.headers();
    assert_eq!(header.bug_check_code, 0xE2);
    assert_eq!(header.bug_check_code_parameters, [1, 2, 3, u64::MAX]);
    assert_eq!((header.number_processors, header.minor_version), (4, 26100));
    assert_eq!(parser.context_record().rip, 0x7000_0123);
    assert_eq!(parser.exception_record().exception_address, 0x7000_0123);
    let mut modules: Vec<_> = parser
        .kernel_modules()
        .map(|(range, name)| {
            (
                u64::from(range.start),
                u64::from(range.end),
                name.to_owned(),
            )
        })
        .collect();
    modules.sort();
    let expected = [
        (0x7000_0000, 0x7000_3000, "one.sys".to_owned()),
        (0x7100_0000, 0x7100_3000, "two.sys".to_owned()),
    ];
    assert_eq!(modules, expected);
    for page in memory.pages() {
        let mut word = [0; 8];
        let read = parser.virt_read(Gva::new(page.address), &mut word);
        assert_eq!(read.expect("it is there"), 8, "{page:x?}");
        assert_eq!(u64::from_le_bytes(word), page.address);
        let details = parser.virt_translate(Gva::new(page.address));
        let details = details.expect("it is mapped");
        assert_eq!(
            (details.writable, details.executable),
            (page.writable, page.executable)
        );
    }
    let absent = parser.virt_read(Gva::new(0x7010_0000), &mut [0; 8]);
    assert!(absent.is_err(), "{absent:?}");
}

#[test]
fn what_drivers_added_is_found_by_its_tag_wherever_the_header_says_it_is() {
    let mut bytes = dump(&contents(), &memory(0x70000..0x70010));
    for is_told in [true, false] {
        if !is_told {
            // `RequiredDumpSpace`.
            bytes[0xFA0..0xFA8].fill(0xFF);
        }
        let dump = Dump::open(bytes.as_slice()).expect("a dump");
        let blobs = dump.blobs(|tag| *tag == TAG).expect("readable");
        let data: Vec<Vec<u8>> = blobs
            .iter()
            .map(|blob| {
                let mut data = vec![0; usize::try_from(blob.bytes).unwrap()];
                dump.read_blob(blob, 0, &mut data).expect("it is there");
                data
            })
            .collect();
        assert_eq!(data, [vec![2; 21], vec![3; 8]]);
        assert!(
            dump.blobs(|tag| *tag == [9; 16])
                .expect("readable")
                .is_empty()
        );
    }
    let cut = &bytes[..bytes.len() - 50];
    let dump = Dump::open(cut).expect("a dump");
    let blobs = dump.blobs(|tag| *tag == TAG).expect("readable");
    assert!(
        blobs.len() == 1 && blobs[0].is_cut_off && blobs[0].bytes == 21 - 7,
        "{blobs:?}"
    );
}

#[test]
fn a_full_dump_has_runs() {
    let mut bytes = dump(&contents(), &memory(0x70000..0x70010));
    let bitmap = Dump::open(bytes.as_slice()).expect("a dump");
    let space = usize::try_from(bitmap.header().required_dump_space.get()).unwrap();
    let first = HEADER_BYTES + PAGE;
    let pages = ((space - first) / PAGE) as u64;
    // The same pages as two runs, behind the header.
    bytes.truncate(space);
    bytes.drain(HEADER_BYTES..first);
    bytes[0xF98..0xF9C].copy_from_slice(&FULL.to_le_bytes());
    let words = [2, pages, 1, 5, 6, pages - 5];
    for (place, word) in bytes[0x88..].as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    let full = Dump::open(bytes.as_slice()).expect("a dump");
    let mut word = [0; 8];
    assert_eq!(
        full.read_virtual(0x7000_F008, &mut word).expect("readable"),
        8
    );
    assert_eq!(u64::from_le_bytes(word), 0x7000_F000);
    let mut seen = Vec::new();
    let needle = 0x7000_5000u64.to_le_bytes();
    let search = full.search_memory(&needle, |physical| {
        seen.push(physical);
        Ok(seen.len() < 2)
    });
    search.expect("readable");
    assert_eq!(seen, [6 << 12, (6 << 12) + 8]);
    let parser = KernelDumpParser::with_reader(Cursor::new(bytes)).expect("a dump");
    let read = parser.virt_read(Gva::new(0x7000_F008), &mut word);
    assert_eq!(read.expect("readable"), 8);
}

/// Everything that can be asked of a dump.
fn ask(bytes: &[u8]) -> Result<usize, DumpError> {
    let dump = Dump::open(bytes)?;
    let mut sum = 0;
    for blob in dump.blobs(|_| true)? {
        let mut data = vec![0; usize::try_from(blob.bytes).unwrap()];
        assert!(data.len() <= bytes.len());
        dump.read_blob(&blob, 0, &mut data)?;
        sum += data.len();
    }
    sum += dump.read_virtual(0x7000_0FF8, &mut [0; 64])?;
    let search = dump.search_memory(b"DumpBlob", |_| {
        sum += 1;
        Ok(true)
    });
    match search {
        Err(DumpError::Kind(_)) | Ok(()) => Ok(sum),
        Err(error) => Err(error),
    }
}

proptest! {
    #[test]
    fn a_changed_or_cut_dump_never_panics(
        changes in proptest::collection::vec((0usize..0x9000, any::<u8>()), 0..16),
        // The fields that lengths and places are in.
        fields in proptest::collection::vec((0usize..6, any::<u64>()), 0..3),
        cut: Option<u16>,
    ) {
        let mut bytes = dump(&contents(), &memory(0x70000..0x70003));
        let end = bytes.len() - 40;
        let places = [0x10, 0xF98, 0xFA0, 0x2020, 0x2030, end];
        for (field, value) in fields {
            bytes[places[field]..places[field] + 8].copy_from_slice(&value.to_le_bytes());
        }
        for (at, value) in changes {
            let length = bytes.len();
            bytes[at % length] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(usize::from(cut));
        }
        let _ = ask(&bytes);
    }

    #[test]
    fn pages_anywhere_are_read_back(numbers in proptest::collection::btree_set(0u64..1 << 36, 0..40)) {
        let memory = memory(numbers.into_iter().filter(|number| number >> 27 != 0x1F0));
        let bytes = dump(&contents(), &memory);
        let dump = Dump::open(bytes.as_slice()).expect("a dump");
        for page in memory.pages() {
            let mut word = [0; 8];
            prop_assert_eq!(dump.read_virtual(page.address, &mut word).expect("readable"), 8);
            prop_assert_eq!(u64::from_le_bytes(word), page.address);
        }
    }
}
