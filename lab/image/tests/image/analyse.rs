//! Which sites are found in which code, and what is to be done about each.

use std::fmt::Write;

use lab_image::{Analysis, Image, Refusal, SiteKind, Treatment};

use crate::support::{BASE, DATA, DriverFile, TEXT, real_driver};

fn image_of(text: &[u8]) -> Image {
    Image::parse(&DriverFile::new(text).build()).unwrap()
}

/// The only site of a function with this code.
fn only_site(text: &[u8]) -> (SiteKind, Treatment, Option<Refusal>) {
    let analysis = Analysis::for_loading(&image_of(text));
    let [site] = analysis.sites() else {
        panic!("{:?}", analysis.sites());
    };
    (site.kind, site.treatment, site.refusal)
}

#[test]
fn every_kind_is_recognised() {
    let code: &[&[u8]] = &[
        &[0x0f, 0x32],                   // rdmsr
        &[0x0f, 0x30],                   // wrmsr
        &[0x0f, 0x33],                   // rdpmc
        &[0x44, 0x0f, 0x20, 0xc0],       // mov rax, cr8
        &[0x44, 0x0f, 0x22, 0xc1],       // mov cr8, rcx
        &[0x0f, 0xa2],                   // cpuid
        &[0x0f, 0x01, 0x0c, 0x24],       // sidt [rsp]
        &[0x0f, 0x01, 0x04, 0x24],       // sgdt [rsp]
        &[0x0f, 0x00, 0xc0],             // sldt eax
        &[0x0f, 0x00, 0xc8],             // str eax
        &[0x0f, 0x01, 0xe0],             // smsw eax
        &[0x9c],                         // pushf
        &[0xfa],                         // cli
        &[0x9d],                         // popf
        &[0xfb],                         // sti
        &[0x0f, 0x01, 0xc1],             // vmcall
        &[0x0f, 0x01, 0xd9],             // vmmcall
        &[0x0f, 0x05],                   // syscall
        &[0x0f, 0x34],                   // sysenter
        &[0xcd, 0x80],                   // int 0x80
        &[0xcd, 0x2e],                   // int 0x2e
        &[0xcd, 0x29],                   // int 0x29, fast fail: legal
        &[0xcc],                         // int3: legal
        &[0xf3, 0x48, 0x0f, 0xae, 0xd8], // wrgsbase rax
        &[0x0f, 0x01, 0xf8],             // swapgs
        &[0x0f, 0x01, 0xcb],             // stac
        &[0x0f, 0x01, 0xca],             // clac
        &[0xf4],                         // hlt
        &[0xec],                         // in al, dx
        &[0xee],                         // out dx, al
        &[0x0f, 0x20, 0xd8],             // mov rax, cr3
        &[0x0f, 0x22, 0xd8],             // mov cr3, rax
        &[0x0f, 0x31],                   // rdtsc
        &[0x0f, 0x01, 0x38],             // invlpg [rax]
        &[0xc3],
    ];
    let analysis = Analysis::for_report(&image_of(&code.concat()));
    let mut listing = String::new();
    for site in analysis.sites() {
        let (offset, len) = (site.rva - TEXT, site.len);
        writeln!(
            listing,
            "{offset:#04x} {len} {:?}: {:?}",
            site.kind, site.treatment
        )
        .unwrap();
    }
    insta::assert_snapshot!(listing);
}

#[test]
fn a_saved_and_restored_flags_register_matters_only_with_cli() {
    let saving = [0x9c, 0x58, 0x50, 0x9d, 0xc3]; // pushf; pop rax; push rax; popf; ret
    assert!(Analysis::for_loading(&image_of(&saving)).sites().is_empty());
    let masking = [0x9c, 0x58, 0xfa, 0x50, 0x9d, 0xc3];
    let analysis = Analysis::for_loading(&image_of(&masking));
    let kinds: Vec<_> = analysis
        .sites()
        .iter()
        .map(|s| (s.kind, s.treatment))
        .collect();
    assert_eq!(
        kinds,
        [
            (SiteKind::Pushf, Treatment::MadeToTrap),
            (SiteKind::Popf, Treatment::MadeToTrap)
        ]
    );
}

#[test]
fn both_depths_agree_on_what_is_changed() {
    let image = Image::parse(&real_driver("x86_64").image).unwrap();
    let loading = Analysis::for_loading(&image);
    let report = Analysis::for_report(&image);
    let changed: Vec<_> = report
        .sites()
        .iter()
        .filter(|s| s.treatment == Treatment::Trampoline)
        .collect();
    assert_eq!(changed.len(), 1);
    assert_eq!(changed, loading.sites().iter().collect::<Vec<_>>());
    assert_eq!(loading.kusd_references(), report.kusd_references());
}

#[test]
fn a_linked_drivers_leaf_functions_are_analysed() {
    let image = Image::parse(&real_driver("x86_64").image).unwrap();
    let analysis = Analysis::for_loading(&image);
    let [site] = analysis.sites() else {
        panic!("{:?}", analysis.sites());
    };
    assert_eq!(
        (site.kind, site.treatment),
        (SiteKind::Rdmsr, Treatment::Trampoline)
    );
    assert!(
        image.function_at(site.rva).is_none(),
        "the case of interest: no unwind information"
    );
    let [reference] = analysis.kusd_references() else {
        panic!("{:?}", analysis.kusd_references());
    };
    assert_eq!((reference.offset, reference.in_code), (0x320, true));
}

#[test]
fn arm64_code_is_not_taken_for_x86() {
    let image = Image::parse(&real_driver("aarch64").image).unwrap();
    assert!(Analysis::for_report(&image).sites().is_empty());
}

#[test]
fn a_site_with_room_and_quiet_neighbours_gets_a_trampoline() {
    // rdmsr; shl rdx, 32; ret
    let text = [0x0f, 0x32, 0x48, 0xc1, 0xe2, 0x20, 0xc3];
    assert_eq!(
        only_site(&text),
        (SiteKind::Rdmsr, Treatment::Trampoline, None)
    );
}

#[test]
fn a_site_is_refused_a_trampoline_when_its_neighbours_cannot_move() {
    let refused = |text: &[u8]| {
        let (kind, treatment, refusal) = only_site(text);
        assert_eq!((kind, treatment), (SiteKind::Rdmsr, Treatment::Traps));
        refusal.unwrap()
    };
    // rdmsr; ret
    assert_eq!(refused(&[0x0f, 0x32, 0xc3]), Refusal::TooShort);
    // rdmsr; cli; mov eax, eax; ret
    assert_eq!(
        refused(&[0x0f, 0x32, 0xfa, 0x89, 0xc0, 0xc3]),
        Refusal::Neighbour
    );
    // rdmsr; call +0; ret
    assert_eq!(
        refused(&[0x0f, 0x32, 0xe8, 0, 0, 0, 0, 0xc3]),
        Refusal::Neighbour
    );
    // rdmsr; mov eax, eax; mov ecx, ecx; jmp rax
    assert_eq!(
        refused(&[0x0f, 0x32, 0x89, 0xc0, 0x89, 0xc9, 0xff, 0xe0]),
        Refusal::IndirectJump
    );
    // rdmsr; mov eax, eax; mov ecx, ecx; jz to the first mov; ret
    assert_eq!(
        refused(&[0x0f, 0x32, 0x89, 0xc0, 0x89, 0xc9, 0x74, 0xfa, 0xc3]),
        Refusal::BranchTarget
    );
    // The same with a long jump, and from another function.
    let far = [
        0x0f, 0x32, 0x89, 0xc0, 0x89, 0xc9, 0x0f, 0x84, 0xf6, 0xff, 0xff, 0xff, 0xc3,
    ];
    assert_eq!(refused(&far), Refusal::BranchTarget);
    // A jump to the site itself is fine: rdmsr; mov eax, eax; mov ecx, ecx; jz to rdmsr; ret
    let back = [0x0f, 0x32, 0x89, 0xc0, 0x89, 0xc9, 0x74, 0xf8, 0xc3];
    assert_eq!(only_site(&back).1, Treatment::Trampoline);
}

#[test]
fn a_table_entry_into_the_window_refuses_the_trampoline() {
    let mut file = DriverFile::new(&[0x0f, 0x32, 0x48, 0xc1, 0xe2, 0x20, 0xc3]);
    file.data[8..12].copy_from_slice(&(TEXT + 2).to_le_bytes());
    let analysis = Analysis::for_loading(&Image::parse(&file.build()).unwrap());
    assert_eq!(analysis.sites()[0].refusal, Some(Refusal::BranchTarget));
    // An absolute pointer, marked by a relocation.
    file.data[8..12].fill(0);
    file.data[..8].copy_from_slice(&(BASE + u64::from(TEXT) + 2).to_le_bytes());
    file.relocations = vec![DATA];
    let analysis = Analysis::for_loading(&Image::parse(&file.build()).unwrap());
    assert_eq!(analysis.sites()[0].refusal, Some(Refusal::BranchTarget));
}

#[test]
fn a_relocated_neighbour_stays() {
    // rdmsr; mov rax, address; ret
    let mut text = vec![0x0f, 0x32, 0x48, 0xb8];
    text.extend_from_slice(&(BASE + u64::from(DATA)).to_le_bytes());
    text.push(0xc3);
    let mut file = DriverFile::new(&text);
    file.relocations = vec![TEXT + 4];
    let analysis = Analysis::for_loading(&Image::parse(&file.build()).unwrap());
    assert_eq!(analysis.sites()[0].refusal, Some(Refusal::Relocation));
}

#[test]
fn bytes_that_nothing_refers_to_are_left_alone() {
    // ret, filler to 16, then `cpuid; ret` in no function.
    let mut text = vec![0xcc; 16];
    text[0] = 0xc3;
    text.extend_from_slice(&[0x0f, 0xa2, 0xc3]);
    let mut file = DriverFile::new(&text);
    file.functions = vec![(TEXT, TEXT + 1)];
    let site = |file: &DriverFile| {
        let analysis = Analysis::for_loading(&Image::parse(&file.build()).unwrap());
        (analysis.sites()[0].treatment, analysis.sites()[0].refusal)
    };
    assert_eq!(
        site(&file),
        (Treatment::LeftAlone, Some(Refusal::UnprovenCode))
    );
    // Once the first function calls it, it is code: call +11.
    file.text[..6].copy_from_slice(&[0xe8, 11, 0, 0, 0, 0xc3]);
    file.functions = vec![(TEXT, TEXT + 6)];
    assert_eq!(site(&file), (Treatment::MadeToTrap, Some(Refusal::TooShort)));
}

#[test]
fn shared_data_addresses_are_found_in_code_and_data() {
    // mov rax, KUSD + 0x14; mov eax, [KUSD + 0x320]; ret
    let mut text = vec![0x48, 0xb8];
    text.extend_from_slice(&0xffff_f780_0000_0014_u64.to_le_bytes());
    text.push(0xa1);
    text.extend_from_slice(&0xffff_f780_0000_0320_u64.to_le_bytes());
    text.push(0xc3);
    let mut file = DriverFile::new(&text);
    file.data[16..24].copy_from_slice(&0xffff_f780_0000_0008_u64.to_le_bytes());
    file.data[24..32].copy_from_slice(&0xffff_f780_0000_1000_u64.to_le_bytes()); // the next page
    let analysis = Analysis::for_loading(&Image::parse(&file.build()).unwrap());
    let found: Vec<_> = analysis
        .kusd_references()
        .iter()
        .map(|r| (r.rva, r.offset, r.in_code))
        .collect();
    assert_eq!(
        found,
        [
            (TEXT + 2, 0x14, true),
            (TEXT + 11, 0x320, true),
            (DATA + 16, 8, false)
        ]
    );
}
