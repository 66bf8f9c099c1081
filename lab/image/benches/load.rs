//! What it costs to read, analyse and map a driver of 100 KB.
#![expect(missing_docs, reason = "criterion's macros define public items")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use lab_image::{Analysis, Image, Loader, MapOptions};

#[expect(dead_code, reason = "shared with tests that use more of it")]
#[path = "../tests/image/support.rs"]
mod support;

/// A driver with 64 KiB of linked code in 800 functions, a few sites, and 2000 relocations.
fn large_driver() -> Vec<u8> {
    let sample = support::real_driver("x86_64").image;
    let sample = Image::parse(&sample).expect("the sample driver is well-formed");
    let text = sample.stored(&sample.sections()[0]);
    let entry = sample.functions()[0];
    let ordinary = &text[..(entry.end - entry.begin) as usize];
    let code_flags = object::pe::IMAGE_SCN_MEM_EXECUTE | object::pe::IMAGE_SCN_MEM_READ;
    let data_flags = object::pe::IMAGE_SCN_MEM_WRITE | object::pe::IMAGE_SCN_MEM_READ;
    let padded = ordinary.iter().copied().chain([0xcc]);
    let long: Vec<u8> = padded.cycle().take(64 << 10).collect();
    let pointers: Vec<u8> = (0..2000_u64)
        .flat_map(|i| {
            (support::BASE + u64::from(support::TEXT))
                .wrapping_add(i & 1)
                .to_le_bytes()
        })
        .collect();
    let mut file = support::DriverFile::new(text);
    file.functions = vec![(support::TEXT, support::TEXT + (entry.end - entry.begin))];
    file.extra = vec![
        (b"LONGTEXT", code_flags, long),
        (b"POINTERS", data_flags, pointers),
    ];
    let rva_of = |file: &support::DriverFile, name| {
        let image = Image::parse(&file.build()).expect("well-formed");
        let section = image.sections().iter().find(|s| s.name == name);
        section.expect("present").rva
    };
    // As many entries as there will be, so that the sections behind the table do not move any more.
    let step = entry.end - entry.begin + 1;
    let count = (64 << 10) / step;
    file.functions
        .extend((0..count).map(|i| (support::DATA + i, support::DATA + i + 1)));
    let long = rva_of(&file, "LONGTEXT");
    file.functions.truncate(1);
    file.functions
        .extend((0..count).map(|i| (long + i * step, long + i * step + step - 1)));
    let pointers = rva_of(&file, "POINTERS");
    file.relocations = (0..2000).map(|i| pointers + 8 * i).collect();
    file.build()
}

fn benches(c: &mut Criterion) {
    for (name, bytes) in [
        ("sample (2.5 KB)", support::real_driver("x86_64").image),
        ("large (100 KB)", large_driver()),
    ] {
        let image = Arc::new(Image::parse(&bytes).expect("well-formed"));
        let loader = Loader::new(Arc::clone(&image));
        println!(
            "{name}: {} bytes, {} sites",
            bytes.len(),
            loader.analysis().sites().len()
        );
        c.bench_function(&format!("parse {name}"), |b| {
            b.iter(|| Image::parse(black_box(&bytes)));
        });
        c.bench_function(&format!("analyse for loading {name}"), |b| {
            b.iter(|| Analysis::for_loading(black_box(&image)));
        });
        c.bench_function(&format!("analyse for report {name}"), |b| {
            b.iter(|| Analysis::for_report(black_box(&image)));
        });
        c.bench_function(&format!("map and unmap {name}"), |b| {
            let mut bind = |import: &lab_image::Import| u64::from(import.iat_rva);
            b.iter(|| {
                let options = MapOptions {
                    bind: &mut bind,
                    routine: &mut |_| Some(0x2000),
                    kusd_alias: 0x1000,
                    cookie: 1,
                };
                loader.map(options)
            });
        });
    }
}

criterion_group!(load, benches);
criterion_main!(load);
