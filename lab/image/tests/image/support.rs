//! Driver files for the tests: assembled here, or built from source.

#[path = "support/real.rs"]
mod real;

use object::pe;
use object::write::pe::{NtHeaders, Writer};

pub(crate) use real::real_driver;

/// Where the sections of [`DriverFile`] are, as long as each fits into a page.
pub(crate) const TEXT: u32 = 0x1000;
pub(crate) const DATA: u32 = 0x2000;
pub(crate) const IDATA: u32 = 0x3000;
/// Base for which the files are linked.
pub(crate) const BASE: u64 = 0x1_4000_0000;

const IAT: u32 = 0x400;
const CODE: u32 = pe::IMAGE_SCN_CNT_CODE | pe::IMAGE_SCN_MEM_EXECUTE | pe::IMAGE_SCN_MEM_READ;
const READ_WRITE: u32 = pe::IMAGE_SCN_MEM_READ | pe::IMAGE_SCN_MEM_WRITE;

/// A driver file under construction.
pub(crate) struct DriverFile {
    pub(crate) machine: u16,
    pub(crate) text: Vec<u8>,
    pub(crate) text_flags: u32,
    pub(crate) data: Vec<u8>,
    pub(crate) imports: Vec<&'static str>,
    pub(crate) functions: Vec<(u32, u32)>,
    pub(crate) relocations: Vec<u32>,
    pub(crate) entry: u32,
    pub(crate) extra: Vec<(&'static [u8; 8], u32, Vec<u8>)>,
    pub(crate) cookie: Option<u32>,
}

impl DriverFile {
    /// A driver with this code, entered at its first byte.
    pub(crate) fn new(text: &[u8]) -> Self {
        Self {
            machine: pe::IMAGE_FILE_MACHINE_AMD64,
            text: text.to_vec(),
            text_flags: CODE,
            data: vec![0; 64],
            imports: vec!["DbgPrint", "KeBugCheckEx"],
            functions: vec![(TEXT, TEXT + u32::try_from(text.len()).unwrap())],
            relocations: Vec::new(),
            entry: TEXT,
            extra: Vec::new(),
            cookie: None,
        }
    }

    /// Rva of the slot of import number `index`.
    pub(crate) fn iat(index: u32) -> u32 {
        IDATA + IAT + 8 * index
    }

    /// The import section: descriptors, DLL name, names; address slots from [`IAT`] on.
    fn idata(&self) -> Vec<u8> {
        let mut bytes = vec![0; 0x600];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        let names = 0x100;
        for (index, field) in [(0, IDATA + names), (3, IDATA + 0x40), (4, IDATA + IAT)] {
            put(4 * index, &field.to_le_bytes());
        }
        put(0x40, b"ntoskrnl.exe\0");
        let mut text = 0x200_u32;
        for (index, import) in self.imports.iter().enumerate() {
            let entry = u64::from(IDATA + text).to_le_bytes();
            put(names as usize + 8 * index, &entry);
            put(IAT as usize + 8 * index, &entry);
            put(text as usize + 2, import.as_bytes());
            text += (u32::try_from(import.len()).unwrap() + 3).next_multiple_of(2);
        }
        bytes
    }

    fn pdata(&self) -> Vec<u8> {
        let entries = self
            .functions
            .iter()
            .flat_map(|&(begin, end)| [begin, end, IDATA + 0x5f0]);
        entries.flat_map(u32::to_le_bytes).collect()
    }

    fn load_config(cookie: u32) -> Vec<u8> {
        let mut bytes = vec![0; 0x94];
        bytes[..4].copy_from_slice(&0x94_u32.to_le_bytes());
        bytes[0x58..0x60].copy_from_slice(&(BASE + u64::from(cookie)).to_le_bytes());
        bytes[0x90..].copy_from_slice(&0x100_u32.to_le_bytes());
        bytes
    }

    /// The file.
    pub(crate) fn build(&self) -> Vec<u8> {
        let mut sections: Vec<([u8; 8], u32, Vec<u8>)> = vec![
            (*b".text\0\0\0", self.text_flags, self.text.clone()),
            (*b".data\0\0\0", READ_WRITE, self.data.clone()),
            (*b".idata\0\0", READ_WRITE, self.idata()),
            (*b".pdata\0\0", pe::IMAGE_SCN_MEM_READ, self.pdata()),
        ];
        if let Some(cookie) = self.cookie {
            let config = Self::load_config(cookie);
            sections.push((*b".rdata\0\0", pe::IMAGE_SCN_MEM_READ, config));
        }
        for (name, flags, bytes) in &self.extra {
            sections.push((**name, *flags, bytes.clone()));
        }
        let mut file = Vec::new();
        let mut writer = Writer::new(true, 0x1000, 0x200, &mut file);
        writer.reserve_dos_header_and_stub();
        writer.reserve_nt_headers(16);
        writer.reserve_section_headers(u16::try_from(sections.len()).unwrap() + 1);
        let ranges: Vec<_> = sections
            .iter()
            .map(|(name, flags, bytes)| {
                let len = u32::try_from(bytes.len()).unwrap();
                writer.reserve_section(*name, *flags, len, len)
            })
            .collect();
        for &relocation in &self.relocations {
            writer.add_reloc(relocation, pe::IMAGE_REL_BASED_DIR64);
        }
        writer.reserve_reloc_section();
        let functions = u32::try_from(12 * self.functions.len()).unwrap();
        if !self.imports.is_empty() {
            writer.set_data_directory(pe::IMAGE_DIRECTORY_ENTRY_IMPORT, IDATA, 40);
        }
        let pdata = ranges[3].virtual_address;
        writer.set_data_directory(pe::IMAGE_DIRECTORY_ENTRY_EXCEPTION, pdata, functions);
        if self.cookie.is_some() {
            let rva = ranges[4].virtual_address;
            writer.set_data_directory(pe::IMAGE_DIRECTORY_ENTRY_LOAD_CONFIG, rva, 0x94);
        }
        writer.write_dos_header_and_stub().unwrap();
        writer.write_nt_headers(self.nt_headers());
        writer.write_section_headers();
        for (range, (_, _, bytes)) in ranges.iter().zip(&sections) {
            writer.write_section(range.file_offset, bytes);
        }
        writer.write_reloc_section();
        file
    }

    fn nt_headers(&self) -> NtHeaders {
        NtHeaders {
            machine: self.machine,
            time_date_stamp: 0x6000_0000,
            characteristics: pe::IMAGE_FILE_EXECUTABLE_IMAGE | pe::IMAGE_FILE_LARGE_ADDRESS_AWARE,
            major_linker_version: 14,
            minor_linker_version: 0,
            address_of_entry_point: self.entry,
            image_base: BASE,
            major_operating_system_version: 10,
            minor_operating_system_version: 0,
            major_image_version: 10,
            minor_image_version: 0,
            major_subsystem_version: 10,
            minor_subsystem_version: 0,
            subsystem: pe::IMAGE_SUBSYSTEM_NATIVE,
            dll_characteristics: pe::IMAGE_DLLCHARACTERISTICS_NX_COMPAT,
            size_of_stack_reserve: 0x10_0000,
            size_of_stack_commit: 0x1000,
            size_of_heap_reserve: 0x10_0000,
            size_of_heap_commit: 0x1000,
        }
    }
}

/// A simple driver that uses everything the loader looks at.
pub(crate) fn ordinary() -> DriverFile {
    // mov rax, [rip + first import]; xor eax, eax; ret
    let mut file = DriverFile::new(&[0x31, 0xc0, 0xc3]);
    file.data = vec![0; 64];
    let pointer = BASE + u64::from(DATA) + 16;
    file.data[..8].copy_from_slice(&pointer.to_le_bytes());
    file.relocations = vec![DATA];
    file.cookie = Some(DATA + 32);
    file
}
