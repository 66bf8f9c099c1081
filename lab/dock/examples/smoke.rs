//! smoke
use lab_ntos::*;
fn main() {
    let read = lab_dock::read_driver(std::path::Path::new(&std::env::args().nth(1).unwrap())).unwrap_or_else(|e| panic!("{e}"));
    println!("symbols: {:?}", read.no_symbols);
    let machine = Machine::new(Config { debug_print: Box::new(|t| print!("dbg: {t}")), ..Config::default() }).unwrap();
    match machine.load(&read.driver) {
        Ok(Loaded::Running(d)) => {
            println!("running; insecure {:?}", machine.insecure_devices());
            let client = Client { process: 100, privilege: Privilege::Administrator };
            let file = machine.open(r"\\.\WperfDriver", 0xC000_0000, client);
            println!("{file:?}");
            if let Ok(Ok(file)) = file {
                let mut out = [0u8; 512];
                for f in 0x800..0x804u32 {
                    let code = 0x8D77 << 16 | 1 << 14 | f << 2;
                    println!("{:?}", machine.ioctl(file, code, &[0;4], &mut out));
                }
                println!("{:?}", machine.close(file));
            }
            for l in machine.unload(d).unwrap_or_else(|e| panic!("{e}")) { println!("{l}"); }
            println!("{:?}", machine.footprint());
        }
        Ok(Loaded::Failed(s, l)) => { println!("failed {s}"); for l in l { println!("{l}"); } }
        Err(e) => println!("{e}"),
    }
}
