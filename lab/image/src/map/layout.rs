//! What the bytes and the protections of a mapping are: plain computation on slices.

use core::ops::Range;

use super::loader::Inputs;
use super::{PAGE, Protection};
use crate::analysis::{Analysis, SLOTS, Site, Treatment};
use crate::image::{Image, Section};

/// `ud2`.
const UD2: [u8; 2] = [0x0f, 0x0b];
/// `int3`, for sites of one byte.
const INT3: u8 = 0xcc;
/// `nop`, behind `ud2`.
const NOP: u8 = 0x90;

/// Fills zeroed memory with an image for the base and the addresses in `inputs`.
pub(super) fn fill(memory: &mut [u8], image: &Image, analysis: &Analysis, inputs: &Inputs) {
    copy(memory, image);
    relocate(memory, inputs.base, image);
    for (import, address) in image.imports().iter().zip(&inputs.imports) {
        write(memory, import.iat_rva, &address.to_le_bytes());
    }
    for reference in analysis.kusd_references() {
        let address = inputs.kusd_alias.wrapping_add(reference.offset.into());
        write(memory, reference.rva, &address.to_le_bytes());
    }
    for site in analysis.sites() {
        make_trap(memory, site);
    }
    install_trampolines(memory, image, analysis, &inputs.routines);
}

fn copy(memory: &mut [u8], image: &Image) {
    let headers = image.header().headers_size as usize;
    write(memory, 0, image.file().get(..headers).unwrap_or_default());
    for section in image.sections() {
        write(memory, section.rva, image.stored(section));
    }
}

fn relocate(memory: &mut [u8], base: u64, image: &Image) {
    let delta = base.wrapping_sub(image.header().preferred_base);
    for &rva in image.relocations() {
        let slot = memory
            .get_mut(rva as usize..)
            .and_then(|rest| rest.first_chunk_mut::<8>());
        if let Some(slot) = slot {
            *slot = u64::from_le_bytes(*slot).wrapping_add(delta).to_le_bytes();
        }
    }
}

fn make_trap(memory: &mut [u8], site: &Site) {
    if site.treatment != Treatment::MadeToTrap {
        return;
    }
    let end = site.rva as usize + usize::from(site.len);
    match memory.get_mut(site.rva as usize..end) {
        Some([only]) => *only = INT3,
        Some([first, second, rest @ ..]) => {
            [*first, *second] = UD2;
            rest.fill(NOP);
        }
        _ => {}
    }
}

fn install_trampolines(
    memory: &mut [u8],
    image: &Image,
    analysis: &Analysis,
    routines: &[Option<u64>; SLOTS.len()],
) {
    let trampolines = analysis.trampolines();
    let space = image.header().image_size;
    write(memory, space, &trampolines.code);
    for (slot, routine) in (0..).zip(routines) {
        if let Some(address) = routine {
            write(memory, space + 8 * slot, &address.to_le_bytes());
        }
    }
    for jump in &trampolines.jumps {
        if routines.get(jump.slot).is_some_and(Option::is_some) {
            write(memory, jump.rva, &jump.bytes);
        }
    }
}

/// Writes bytes at an rva. Everything written was checked to be inside when the image was parsed.
pub(super) fn write(memory: &mut [u8], rva: u32, bytes: &[u8]) {
    let start = rva as usize;
    let target = start
        .checked_add(bytes.len())
        .and_then(|end| memory.get_mut(start..end));
    debug_assert!(target.is_some(), "rva {rva:#x} is outside the mapping");
    if let Some(target) = target {
        target.copy_from_slice(bytes);
    }
}

/// Protections of the whole mapping, as few runs as possible, ascending and without gaps.
pub(super) fn runs(
    image: &Image,
    trampolines: usize,
    len: usize,
) -> Vec<(Range<usize>, Protection)> {
    let mut runs = Vec::with_capacity(image.sections().len() + 3);
    let size = image.header().image_size as usize;
    push(
        &mut runs,
        pages_around(0..image.header().headers_size as usize),
        Protection::Read,
    );
    for section in image.sections() {
        push(&mut runs, pages_of(section), protection(section));
    }
    push(
        &mut runs,
        size..(size + trampolines).next_multiple_of(PAGE),
        Protection::ReadExecute,
    );
    push(&mut runs, len..len, Protection::None);
    runs
}

/// Appends a run: a gap before it becomes inaccessible, a page it shares with its predecessor gets both rights.
fn push(runs: &mut Vec<(Range<usize>, Protection)>, pages: Range<usize>, protection: Protection) {
    let end = runs.last().map_or(0, |(run, _)| run.end);
    if pages.start < end {
        let shared = pages.start..end.min(pages.end);
        split_shared(runs, shared.clone(), protection);
        append(runs, shared.end..pages.end, protection);
    } else {
        append(runs, end..pages.start, Protection::None);
        append(runs, pages, protection);
    }
}

fn append(runs: &mut Vec<(Range<usize>, Protection)>, pages: Range<usize>, protection: Protection) {
    match runs.last_mut() {
        _ if pages.is_empty() => {}
        Some((run, last)) if *last == protection && run.end == pages.start => run.end = pages.end,
        _ => runs.push((pages, protection)),
    }
}

/// Gives the last page or pages of the last run the union of its rights and `protection`.
fn split_shared(
    runs: &mut Vec<(Range<usize>, Protection)>,
    shared: Range<usize>,
    protection: Protection,
) {
    let Some((run, last)) = runs.pop() else {
        return;
    };
    append(runs, run.start..shared.start, last);
    append(runs, shared, union(last, protection));
}

fn union(a: Protection, b: Protection) -> Protection {
    let has = |wanted: [Protection; 2]| wanted.contains(&a) || wanted.contains(&b);
    let write = has([Protection::ReadWrite, Protection::ReadWriteExecute]);
    let execute = has([Protection::ReadExecute, Protection::ReadWriteExecute]);
    match (write, execute) {
        (true, true) => Protection::ReadWriteExecute,
        (true, false) => Protection::ReadWrite,
        (false, true) => Protection::ReadExecute,
        (false, false) if a == Protection::None && b == Protection::None => Protection::None,
        (false, false) => Protection::Read,
    }
}

fn protection(section: &Section) -> Protection {
    match (section.is_writable(), section.is_executable()) {
        (true, true) => Protection::ReadWriteExecute,
        (true, false) => Protection::ReadWrite,
        (false, true) => Protection::ReadExecute,
        (false, false) if section.is_readable() => Protection::Read,
        (false, false) => Protection::None,
    }
}

fn pages_around(bytes: Range<usize>) -> Range<usize> {
    bytes.start / PAGE * PAGE..bytes.end.next_multiple_of(PAGE)
}

fn pages_of(section: &Section) -> Range<usize> {
    pages_around(section.range().start as usize..section.range().end as usize)
}

/// Pages of discardable sections that no other section is on.
pub(super) fn discardable_pages(image: &Image) -> Vec<Range<usize>> {
    exclusive_pages(image, Section::is_discardable)
}

/// Pages of pageable sections that no other section is on.
pub(super) fn pageable_pages(image: &Image) -> Vec<Range<usize>> {
    exclusive_pages(image, Section::is_pageable)
}

fn exclusive_pages(image: &Image, wanted: impl Fn(&Section) -> bool) -> Vec<Range<usize>> {
    let kept: Vec<Range<usize>> = core::iter::once(0..image.header().headers_size as usize)
        .map(pages_around)
        .chain(image.sections().iter().filter(|s| !wanted(s)).map(pages_of))
        .collect();
    let mut pages: Vec<Range<usize>> = Vec::new();
    for section in image.sections().iter().filter(|s| wanted(s)) {
        let own = pages_of(section);
        let start = kept
            .iter()
            .filter(|k| k.contains(&own.start))
            .map(|k| k.end)
            .max();
        let end = kept
            .iter()
            .filter(|k| !own.is_empty() && k.contains(&(own.end - 1)))
            .map(|k| k.start)
            .min();
        let own = start.unwrap_or(own.start)..end.unwrap_or(own.end);
        match pages.last_mut() {
            _ if own.is_empty() => {}
            Some(last) if last.end >= own.start => last.end = own.end.max(last.end),
            _ => pages.push(own),
        }
    }
    pages
}
