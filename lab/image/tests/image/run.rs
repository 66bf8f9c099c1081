//! Mapped code is run: trampolines do what the instruction would.
#![expect(unsafe_code, reason = "calls into mapped drivers")]
#![cfg(target_arch = "x86_64")]

use core::arch::naked_asm;
use std::sync::Arc;

use lab_image::{Image, Loader, MapOptions, MappedImage, SiteKind};

use crate::support::{DriverFile, TEXT, real_driver};

/// Answers `rdmsr` and `rdpmc` with ecx in both halves, one of them complemented; keeps the flags.
#[unsafe(naked)]
extern "C" fn read_register() {
    naked_asm!("mov eax, ecx", "mov edx, ecx", "not edx", "ret")
}

/// Answers `mov r, cr8`.
#[unsafe(naked)]
extern "C" fn read_irql() {
    naked_asm!("mov eax, 13", "ret")
}

/// Takes `mov cr8, r`: leaves the value where the test finds it.
#[unsafe(naked)]
extern "C" fn write_irql() {
    naked_asm!("mov [r8], rcx", "ret")
}

fn routine(kind: SiteKind) -> Option<u64> {
    let address = match kind {
        SiteKind::Rdmsr | SiteKind::Rdpmc => read_register as *const () as usize,
        SiteKind::ReadCr8 => read_irql as *const () as usize,
        SiteKind::WriteCr8 => write_irql as *const () as usize,
        _ => return None,
    };
    Some(address as u64)
}

fn map(bytes: &[u8]) -> MappedImage {
    let image = Arc::new(Image::parse(bytes).unwrap());
    let options = MapOptions {
        bind: &mut |_| 0,
        routine: &mut routine,
        kusd_alias: 0x1000,
        cookie: 1,
    };
    Loader::new(image).map(options).unwrap()
}

/// Calls code with the Win64 convention.
fn call(mapped: &MappedImage, rva: u32, arguments: [u64; 4]) -> u64 {
    let address = usize::try_from(mapped.address_of(rva)).unwrap();
    let pointer = std::ptr::with_exposed_provenance::<()>(address);
    // SAFETY: the tests' code follows the Win64 convention and takes up to four integers.
    let function: extern "efiapi" fn(u64, u64, u64, u64) -> u64 =
        unsafe { std::mem::transmute(pointer) };
    let [a, b, c, d] = arguments;
    function(a, b, c, d)
}

fn run(text: &[u8], arguments: [u64; 4]) -> u64 {
    let mapped = map(&DriverFile::new(text).build());
    assert!(
        mapped
            .analysis()
            .sites()
            .iter()
            .all(|site| mapped.is_patched(site))
    );
    call(&mapped, TEXT, arguments)
}

#[test]
fn rdmsr_reads_through_the_routine() {
    // rdmsr; shl rdx, 32; or rax, rdx; ret
    let text = [0x0f, 0x32, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0, 0xc3];
    assert_eq!(run(&text, [0xc000_0080, 0, 0, 0]), 0x3fff_ff7f_c000_0080);
}

#[test]
fn a_linked_driver_reads_a_register_at_full_speed() {
    let mapped = map(&real_driver("x86_64").image);
    let [site] = mapped.analysis().sites() else {
        panic!("{:?}", mapped.analysis().sites());
    };
    assert_eq!(call(&mapped, site.rva, [7, 0, 0, 0]), 0xffff_fff8_0000_0007);
}

#[test]
fn every_register_can_receive_the_irql_and_none_other_changes() {
    // mov r, cr8; mov rax, r; for rax, rbx, rdx, r10: callee-saved ones are pushed around it.
    assert_eq!(run(&[0x44, 0x0f, 0x20, 0xc0, 0x90, 0xc3], [0; 4]), 13);
    // mov rax, rcx; mov rdx, cr8; lea rax, [rax + rdx]; ret
    let text = [
        0x48, 0x89, 0xc8, 0x44, 0x0f, 0x20, 0xc2, 0x48, 0x8d, 0x04, 0x10, 0xc3,
    ];
    assert_eq!(run(&text, [1000, 0, 0, 0]), 1013);
    // mov rax, rcx; mov r10, cr8; add rax, r10; ret
    let text = [
        0x48, 0x89, 0xc8, 0x45, 0x0f, 0x20, 0xc2, 0x4c, 0x01, 0xd0, 0xc3,
    ];
    assert_eq!(run(&text, [2000, 0, 0, 0]), 2013);
}

#[test]
fn every_register_can_set_the_irql() {
    let mut out = 0_u64;
    let address = (&raw mut out).expose_provenance() as u64;
    // mov cr8, rcx; mov rax, rcx; ret
    let from_rcx = [0x44, 0x0f, 0x22, 0xc1, 0x48, 0x89, 0xc8, 0xc3];
    assert_eq!(run(&from_rcx, [2, 9, address, 0]), 2);
    // SAFETY: `out` lives, and the code above wrote to it through its exposed address.
    assert_eq!(unsafe { (&raw const out).read_volatile() }, 2);
    // mov cr8, rdx; mov rax, rcx; ret: rcx is kept
    let from_rdx = [0x44, 0x0f, 0x22, 0xc2, 0x48, 0x89, 0xc8, 0xc3];
    assert_eq!(run(&from_rdx, [5, 9, address, 0]), 5);
    // SAFETY: as above.
    assert_eq!(unsafe { (&raw const out).read_volatile() }, 9);
}

#[test]
fn neighbours_that_branch_or_address_relative_to_themselves_still_work() {
    // test ecx, ecx; rdpmc; mov eax, [rip + 4]; ret; 0: the flags survive until the jump
    // rdpmc; jz +7; mov eax, 5; ret; (zero:) mov eax, [rip + 1]; ret; .long 77
    let text = [
        0x85, 0xc9, // test ecx, ecx
        0x0f, 0x33, // rdpmc          (window: rdpmc, jz, mov)
        0x74, 0x06, // jz zero
        0xb8, 5, 0, 0, 0, 0xc3, // mov eax, 5; ret
        0x8b, 0x05, 1, 0, 0, 0, 0xc3, // zero: mov eax, [rip + 1]; ret
        77, 0, 0, 0,
    ];
    assert_eq!(run(&text, [1, 0, 0, 0]), 5);
    assert_eq!(run(&text, [0, 0, 0, 0]), 77);
    // rdpmc; mov eax, [rip + 1]; ret; .long 78: the load itself moves
    let text = [0x0f, 0x33, 0x8b, 0x05, 1, 0, 0, 0, 0xc3, 78, 0, 0, 0];
    assert_eq!(run(&text, [0, 0, 0, 0]), 78);
}

#[test]
fn a_site_before_a_loop_is_patched_together_with_what_precedes_it() {
    // mov ecx, 7; rdpmc; (loop:) dec eax; jnz loop; mov eax, edx; ret
    let text = [
        0xb9, 7, 0, 0, 0, 0x0f, 0x33, 0xff, 0xc8, 0x75, 0xfc, 0x89, 0xd0, 0xc3,
    ];
    let mapped = map(&DriverFile::new(&text).build());
    let [site] = mapped.analysis().sites() else {
        panic!("{:?}", mapped.analysis().sites());
    };
    assert!(site.rva == TEXT + 5 && mapped.is_patched(site));
    assert_eq!(call(&mapped, TEXT, [0; 4]), 0xffff_fff8);
    // In the trampoline: mov (5), call [slot] (6), jmp.
    let space = mapped.range().end;
    let origin = |offset| {
        mapped
            .origin_of(space + 48 + offset)
            .map(|a| a - mapped.base())
    };
    let text = u64::from(TEXT);
    assert_eq!(
        (origin(0), origin(5), origin(11)),
        (Some(text), Some(text + 5), Some(text + 7))
    );
}

#[test]
fn trampoline_addresses_are_traced_back_to_the_driver() {
    let text = [0x0f, 0x32, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0, 0xc3];
    let mapped = map(&DriverFile::new(&text).build());
    let space = mapped.range().end;
    // Behind five slots and padding: call [slot] (6 bytes), shl (4), jmp (5).
    let origin = |offset| {
        mapped
            .origin_of(space + 48 + offset)
            .map(|a| a - mapped.base())
    };
    let text = u64::from(TEXT);
    assert_eq!(origin(0), Some(text));
    assert_eq!(origin(6), Some(text + 2));
    assert_eq!(origin(8), Some(text + 2));
    assert_eq!(origin(10), Some(text + 6));
    assert_eq!(mapped.origin_of(space + 0x1000), None);
    assert_eq!(
        mapped.origin_of(mapped.address_of(TEXT)),
        Some(mapped.address_of(TEXT))
    );
}
