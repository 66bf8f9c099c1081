//! What the sites of a driver file are, with the functions around them.

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;
use std::sync::Arc;

use lab_image::{Image, Symbols, SymbolsError, statics};
use trace_format::request::Information;
use trace_format::site::{self, Description, Directory, Kind, Level};
use trace_format::wpp::{Item, PROVIDER_MAGIC};
use trace_format::{Form, Heat};
use zerocopy::FromBytes;

use crate::cursor::Cursor;

/// Why the sites of a driver file cannot be known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogueError {
    /// The driver was built without tracing.
    #[error(
        "the driver has no section {}: it was built without tracing",
        site::SECTION
    )]
    NoSection,
    /// Another version of the format.
    #[error("the driver's trace format is version {0}, which this program does not know")]
    Version(u32),
    /// The section is not what it should be.
    #[error("malformed section {}: {what} at rva {rva:#x}", site::SECTION)]
    Malformed {
        /// What is wrong.
        what: &'static str,
        /// Where.
        rva: u32,
    },
    /// The PDB cannot be read.
    #[error("cannot read the driver's symbols")]
    Symbols(#[from] SymbolsError),
}

/// What an argument of a site is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Width as it is shown.
    pub bits: u8,
    /// Names of its values, in the order of values.
    pub names: Vec<(u64, String)>,
}

impl Field {
    /// How it goes out through ETW.
    #[must_use]
    pub fn item(&self) -> Item {
        let names = self.names.iter();
        Item::of(
            self.kind,
            self.bits,
            names.map(|(value, name)| (*value, name.as_bytes())),
        )
    }
}

/// One copy of a site in the machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// What slots carry.
    pub id: u32,
    /// Rva of an instruction of it.
    pub code: u32,
    /// How much it matters.
    pub level: Level,
    /// Bit of its flag.
    pub flag: u8,
    /// Name of its flag.
    pub flag_name: String,
    /// What it says.
    pub form: Form,
    /// Which path it is on.
    pub heat: Heat,
    /// Module that it is in.
    pub module: String,
    /// File that it is in.
    pub file: String,
    /// Line in the file.
    pub line: u32,
    /// What it says in words.
    pub text: String,
    /// Its arguments.
    pub fields: Vec<Field>,
    /// The function that the macro stands in; the module, if there are no symbols.
    pub function: String,
    /// Functions that it was inlined into, from the inside out.
    pub callers: Vec<String>,
}

impl Site {
    /// Whether the function, or one that it was inlined into, has this in its name.
    #[must_use]
    pub fn is_in(&self, part: &str) -> bool {
        self.function.contains(part) || self.callers.iter().any(|caller| caller.contains(part))
    }
}

/// A switch of one copy of a site.
#[derive(Clone, Debug)]
pub struct Switch {
    /// Its place in the driver's table.
    pub index: u32,
    /// What it switches; `id` is 0.
    pub site: Site,
}

/// Which build a driver file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// `TimeDateStamp`, `SizeOfImage`, `CheckSum` of the file's headers.
    pub identity: [u32; 3],
}

impl Build {
    /// Of what a driver says of itself.
    #[must_use]
    pub fn of(information: &Information) -> Self {
        Self {
            identity: [
                information.time_date_stamp,
                information.image_bytes,
                information.checksum,
            ],
        }
    }
}

/// Sites by id. Ids are rvas, so their middle bits tell them apart, and looking one up is most of what
/// decoding an event is.
type Sites = HashMap<u32, Arc<Site>, BuildHasherDefault<IdHasher>>;

/// Spreads an id.
#[derive(Clone, Copy, Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
    fn write_u32(&mut self, id: u32) {
        // Source: Knuth, The Art of Computer Programming, vol. 3, §6.4: 2^64 over the golden ratio.
        self.0 = u64::from(id).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

/// In whose name a driver's events go out through ETW.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// Control GUID, as it lies in memory.
    pub control: [u8; 16],
    /// Its name.
    pub name: String,
}

/// All sites of a driver file.
#[derive(Clone, Debug)]
pub struct Catalogue {
    sites: Sites,
    provider: Option<Provider>,
    switches: Vec<Switch>,
    build: Build,
}

impl Catalogue {
    /// Reads them; functions are known if there is a PDB.
    ///
    /// Errors: [`CatalogueError`].
    pub fn read(image: &Image, pdb: Option<Vec<u8>>) -> Result<Self, CatalogueError> {
        let section = image
            .sections()
            .iter()
            .find(|section| section.name == site::SECTION)
            .ok_or(CatalogueError::NoSection)?;
        let names = pdb.as_deref().map(statics).transpose()?;
        let symbols = pdb.map(|pdb| Symbols::from_pdb(image, pdb)).transpose()?;
        let reader = Reader {
            rva: section.rva,
            bytes: image.stored(section),
            names: names.unwrap_or_default(),
            symbols,
            described: 0,
        };
        let header = image.header();
        let build = Build {
            identity: [header.time_date_stamp, header.image_size, header.checksum],
        };
        reader.catalogue(build)
    }

    /// A catalogue of these sites; for tests.
    #[must_use]
    pub fn of(sites: Vec<Site>, build: Build) -> Self {
        let sites = sites.into_iter().map(|site| (site.id, Arc::new(site)));
        Self {
            sites: sites.collect(),
            provider: None,
            switches: Vec::new(),
            build,
        }
    }

    /// The site of an id.
    #[must_use]
    pub fn site(&self, id: u32) -> Option<&Arc<Site>> {
        self.sites.get(&id)
    }

    /// All sites, in the order of ids.
    #[must_use]
    pub fn sites(&self) -> Vec<&Arc<Site>> {
        let mut sites: Vec<_> = self.sites.values().collect();
        sites.sort_by_key(|site| site.id);
        sites
    }

    /// All switches.
    #[must_use]
    pub fn switches(&self) -> &[Switch] {
        &self.switches
    }

    /// In whose name its events go out through ETW, if they do.
    #[must_use]
    pub fn provider(&self) -> Option<&Provider> {
        self.provider.as_ref()
    }

    /// Which build it is.
    #[must_use]
    pub fn build(&self) -> Build {
        self.build
    }

    /// Bits of the flags with these names; `Err` is a name that no site has.
    ///
    /// Errors: the first unknown name.
    pub fn flags<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Result<u32, &'n str> {
        let known = |name: &str| {
            let mut sites = self.switches.iter().map(|switch| &switch.site);
            sites.find(|site| site.flag_name.eq_ignore_ascii_case(name))
        };
        names.into_iter().try_fold(
            0,
            |bits, name| Ok(bits | 1 << known(name).ok_or(name)?.flag),
        )
    }
}

/// The section, and what the PDB says.
struct Reader<'a> {
    rva: u32,
    bytes: &'a [u8],
    names: HashMap<u32, String>,
    symbols: Option<Symbols>,
    /// Bytes of all descriptions so far, those of several copies as often.
    described: usize,
}

/// Most bytes of descriptions, all copies counted: a few hundred thousand copies of sites. Without a limit
/// a small file whose records all name one large description would fill the memory.
const MOST_DESCRIBED: usize = 16 << 20;

impl<'a> Reader<'a> {
    fn at(&self, rva: u32) -> Option<Cursor<'a>> {
        let offset = usize::try_from(rva.checked_sub(self.rva)?).ok()?;
        self.bytes.get(offset..).map(Cursor)
    }

    /// The records between two rvas.
    fn records<T: FromBytes>(
        &self,
        from: u32,
        to: u32,
    ) -> Result<impl Iterator<Item = (u32, T)> + 'a, CatalogueError> {
        let malformed = CatalogueError::Malformed {
            what: "a table that is not in it",
            rva: from,
        };
        let size = u32::try_from(size_of::<T>()).unwrap_or(u32::MAX);
        let count = to.checked_sub(from).map(|bytes| bytes / size);
        let (Some(mut cursor), Some(count)) = (self.at(from), count) else {
            return Err(malformed);
        };
        if (cursor.0.len() as u64) < u64::from(count) * u64::from(size) {
            return Err(malformed);
        }
        Ok((0..count).map_while(move |index| Some((from + index * size, cursor.record()?))))
    }

    /// What stands behind the directory.
    fn provider(&self) -> Option<Provider> {
        let mut cursor = Cursor(self.bytes.get(size_of::<Directory>()..)?);
        if cursor.bytes(8)? != PROVIDER_MAGIC {
            return None;
        }
        let control = cursor.bytes(16)?.try_into().ok()?;
        let name = cursor.text()?;
        Some(Provider { control, name })
    }

    fn catalogue(mut self, build: Build) -> Result<Catalogue, CatalogueError> {
        let malformed = |what, rva| CatalogueError::Malformed { what, rva };
        let directory: Directory = Cursor(self.bytes)
            .record()
            .filter(|directory: &Directory| directory.magic == site::DIRECTORY_MAGIC)
            .ok_or(malformed("no directory", self.rva))?;
        if directory.version.get() != site::VERSION {
            return Err(CatalogueError::Version(directory.version.get()));
        }
        let mut sites = Sites::default();
        let events = self.records(directory.events.get(), directory.events_end.get())?;
        for (id, event) in events {
            let event: site::Event = event;
            let site = self.site(id, event.description.get(), event.code.get())?;
            sites.insert(id, Arc::new(site));
        }
        let mut switches = Vec::new();
        let tests = self.records(directory.tests.get(), directory.tests_end.get())?;
        for (_, test) in tests {
            let test: site::Test = test;
            let offset = test.switch.get().checked_sub(directory.switches.get());
            let index = offset.ok_or(malformed(
                "a switch that is not in its table",
                test.switch.get(),
            ))?;
            let site = self.site(0, test.description.get(), test.code.get())?;
            let index = index / u32::try_from(site::SWITCH_BYTES).unwrap_or(1);
            switches.push(Switch { index, site });
        }
        Ok(Catalogue {
            sites,
            provider: self.provider(),
            switches,
            build,
        })
    }

    fn site(&mut self, id: u32, description: u32, code: u32) -> Result<Site, CatalogueError> {
        let malformed = |what| CatalogueError::Malformed {
            what,
            rva: description,
        };
        let found = self
            .at(description)
            .and_then(|cursor| describe(cursor, id, code));
        let (mut site, bytes) = found.ok_or(malformed("no description"))?;
        self.described = self.described.saturating_add(bytes);
        if self.described > MOST_DESCRIBED {
            return Err(malformed("more described than a driver can have"));
        }
        if let Some(path) = self.names.get(&description) {
            site.function = function_of(path, site.form);
        }
        site.callers = self.callers(&site);
        Ok(site)
    }

    /// The functions around the site's own. The PDB names that one too, but wrongly where two functions
    /// were inlined on one line; its variables it names well.
    fn callers(&self, site: &Site) -> Vec<String> {
        let location = self
            .symbols
            .as_ref()
            .and_then(|symbols| symbols.location(site.code));
        let Some(location) = location else {
            return Vec::new();
        };
        let mut frames: Vec<_> = location
            .inlined
            .into_iter()
            .map(|frame| frame.function)
            .collect();
        frames.push(location.frame.function);
        let own = frames
            .iter()
            .position(|frame| plain(frame) == plain(&site.function));
        frames.drain(..=own.unwrap_or(0));
        frames
    }
}

/// The function in which a description is, from the description's path.
fn function_of(path: &str, form: Form) -> String {
    let mut parts: Vec<&str> = path.split("::").collect();
    parts.pop();
    // The destructor is in an implementation inside the function.
    let nested = if form == Form::ScopeExit { 2 } else { 0 };
    parts.truncate(parts.len().saturating_sub(nested).max(1));
    parts.join("::")
}

/// A path without what types were put in.
pub(crate) fn plain(path: &str) -> String {
    let mut depth = 0usize;
    let outside = path.chars().filter(|letter| match letter {
        '<' => {
            depth += 1;
            false
        }
        '>' => {
            depth = depth.saturating_sub(1);
            false
        }
        _ => depth == 0,
    });
    outside.collect()
}

/// A site, and the bytes of its description.
fn describe(mut cursor: Cursor<'_>, id: u32, code: u32) -> Option<(Site, usize)> {
    let all = cursor.0;
    let fixed: Description = cursor.record()?;
    let count = usize::try_from(fixed.fields.get()).ok()?;
    if fixed.magic != site::SITE_MAGIC || fixed.flag > 31 || count > site::MOST_FIELDS {
        return None;
    }
    let end = usize::try_from(fixed.bytes.get()).ok()?;
    cursor = Cursor(all.get(size_of::<Description>()..end)?);
    let flag_name = cursor.text()?;
    let module = cursor.text()?;
    let file = cursor.text()?;
    let text = cursor.text()?;
    let fields = (0..count).map(|_| field(&mut cursor));
    let fields = fields.collect::<Option<_>>()?;
    let site = Site {
        id,
        code,
        level: Level::from_number(fixed.level)?,
        flag: fixed.flag,
        flag_name,
        form: Form::from_number(fixed.form)?,
        heat: Heat::from_number(fixed.heat)?,
        function: module.clone(),
        module,
        file,
        line: fixed.line.get(),
        text,
        fields,
        callers: Vec::new(),
    };
    Some((site, end))
}

fn field(cursor: &mut Cursor<'_>) -> Option<Field> {
    let name = cursor.text()?;
    let kind = Kind::from_number(cursor.u8()?)?;
    let bits = cursor.u8()?;
    let count = cursor.u16()?;
    let names = (0..count).map(|_| Some((cursor.u64()?, cursor.text()?)));
    let mut names: Vec<_> = names.collect::<Option<_>>()?;
    names.sort_by_key(|(value, _)| *value);
    Some(Field {
        name,
        kind,
        bits,
        names,
    })
}
