//! Names of variables.

use std::collections::HashMap;
use std::io::Cursor;

use pdb_addr2line::pdb::{self, AddressMap, FallibleIterator, PDB, SymbolData, SymbolIter};

use super::{SymbolsError, malformed};

/// The variables that a PDB names, by rva, with the path of modules and functions that they are in.
///
/// Errors: [`SymbolsError::Malformed`].
pub fn statics(pdb: &[u8]) -> Result<HashMap<u32, String>, SymbolsError> {
    super::guarded(|| read(pdb).map_err(malformed)).unwrap_or_else(|| Err(super::damaged()))
}

fn read(bytes: &[u8]) -> pdb::Result<HashMap<u32, String>> {
    let mut pdb = PDB::open(Cursor::new(bytes))?;
    let addresses = pdb.address_map()?;
    let mut names = HashMap::new();
    // Those that other modules can see are in a table of their own.
    let globals = pdb.global_symbols()?;
    add(&mut names, globals.iter(), &addresses)?;
    let debug = pdb.debug_information()?;
    let mut modules = debug.modules()?;
    while let Some(module) = modules.next()? {
        if let Some(information) = pdb.module_info(&module)? {
            add(&mut names, information.symbols()?, &addresses)?;
        }
    }
    Ok(names)
}

fn add(
    names: &mut HashMap<u32, String>,
    mut symbols: SymbolIter<'_>,
    addresses: &AddressMap<'_>,
) -> pdb::Result<()> {
    while let Some(symbol) = symbols.next()? {
        // What this reader does not know is no variable.
        if let Ok(SymbolData::Data(data)) = symbol.parse()
            && let Some(rva) = data.offset.to_rva(addresses)
        {
            names.insert(rva.0, data.name.to_string().into_owned());
        }
    }
    Ok(())
}
