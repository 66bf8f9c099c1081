//! Loads an image again and again, doing the work that comes out the same only once.

use std::sync::{Arc, Mutex, PoisonError};

use super::region::{Contents, Draft};
use super::{MapError, MapOptions, MappedImage, PAGE, layout};
use crate::analysis::{Analysis, SLOTS};
use crate::image::{Image, Machine};

/// Everything from outside the file that goes into the pages of a mapping, but for the cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Inputs {
    pub(super) base: u64,
    pub(super) kusd_alias: u64,
    pub(super) imports: Vec<u64>,
    pub(super) routines: [Option<u64>; SLOTS.len()],
}

/// Pages laid out for certain inputs.
#[derive(Debug)]
struct Prepared {
    contents: Contents,
    inputs: Inputs,
}

/// Maps one image, any number of times.
///
/// The pages laid out for the last mapping are kept. While base and addresses stay the same, which they do when a
/// driver is loaded and unloaded in turn, the next mapping shares them and copies only what the driver may write to.
#[derive(Debug)]
pub struct Loader {
    image: Arc<Image>,
    analysis: Arc<Analysis>,
    prepared: Mutex<Option<Arc<Prepared>>>,
}

impl Loader {
    /// Analyses an image for loading.
    pub fn new(image: Arc<Image>) -> Self {
        let analysis = Arc::new(Analysis::for_loading(&image));
        Self::with_analysis(image, analysis)
    }

    /// Takes over an analysis of this image.
    pub fn with_analysis(image: Arc<Image>, analysis: Arc<Analysis>) -> Self {
        Self {
            image,
            analysis,
            prepared: Mutex::new(None),
        }
    }

    /// The image it maps.
    pub fn image(&self) -> &Arc<Image> {
        &self.image
    }

    /// The analysis it patches by.
    pub fn analysis(&self) -> &Arc<Analysis> {
        &self.analysis
    }

    /// Maps, relocates, binds, patches and protects the image.
    ///
    /// Errors: the image cannot move or has too small pages for this machine; the kernel refuses memory.
    pub fn map(&self, options: MapOptions<'_>) -> Result<MappedImage, MapError> {
        check(&self.image)?;
        let cookie = options.cookie;
        let mut inputs = self.ask(options);
        let last = self
            .prepared
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(prepared) = last {
            inputs.base = prepared.inputs.base;
            if inputs == prepared.inputs {
                let draft = self.draft(&prepared.contents, Some(inputs.base))?;
                if draft.address() == inputs.base {
                    return self.finish(draft, &inputs, cookie);
                }
            }
        }
        self.map_afresh(inputs, cookie)
    }

    /// Asks the caller for all addresses; the base is not known yet.
    fn ask(&self, options: MapOptions<'_>) -> Inputs {
        let jumps = &self.analysis.trampolines().jumps;
        let mut slot = 0..;
        Inputs {
            base: 0,
            kusd_alias: options.kusd_alias,
            imports: self.image.imports().iter().map(options.bind).collect(),
            routines: SLOTS.map(|kind| {
                let slot = slot.next();
                let wanted = jumps.iter().any(|jump| Some(jump.slot) == slot);
                wanted.then(|| (options.routine)(kind)).flatten()
            }),
        }
    }

    fn map_afresh(&self, mut inputs: Inputs, cookie: u64) -> Result<MappedImage, MapError> {
        let contents = Contents::new(self.stored_len()).map_err(self.failed("reserve"))?;
        let draft = self.draft(&contents, None)?;
        inputs.base = draft.address();
        let mut memory = vec![0; self.stored_len()];
        layout::fill(&mut memory, &self.image, &self.analysis, &inputs);
        contents.write(&memory).map_err(self.failed("write"))?;
        let mapped = self.finish(draft, &inputs, cookie)?;
        let prepared = Arc::new(Prepared { contents, inputs });
        *self.prepared.lock().unwrap_or_else(PoisonError::into_inner) = Some(prepared);
        Ok(mapped)
    }

    fn draft(&self, contents: &Contents, hint: Option<u64>) -> Result<Draft, MapError> {
        Draft::new(contents, self.reserved_len(), hint).map_err(self.failed("map"))
    }

    /// Writes what is different in each mapping, and protects.
    fn finish(
        &self,
        mut draft: Draft,
        inputs: &Inputs,
        cookie: u64,
    ) -> Result<MappedImage, MapError> {
        if let Some(rva) = self.image.load_config().and_then(|c| c.cookie_rva) {
            layout::write(draft.bytes(), rva, &cookie.to_le_bytes());
        }
        let trampolines = self.analysis.trampolines().code.len();
        let runs = layout::runs(&self.image, trampolines, self.reserved_len());
        Ok(MappedImage {
            image: Arc::clone(&self.image),
            analysis: Arc::clone(&self.analysis),
            region: draft.seal(&runs).map_err(self.failed("protect"))?,
            runs,
            routines: inputs.routines.map(|routine| routine.is_some()),
            discarded: core::sync::atomic::AtomicBool::new(false),
        })
    }

    /// Bytes of image and trampolines.
    fn stored_len(&self) -> usize {
        let trampolines = self.analysis.trampolines().code.len();
        self.image.header().image_size as usize + trampolines.next_multiple_of(PAGE)
    }

    /// Bytes of address space: image, trampolines, guard.
    fn reserved_len(&self) -> usize {
        self.stored_len() + PAGE
    }

    fn failed(&self, doing: &'static str) -> impl Fn(rustix::io::Errno) -> MapError {
        let len = self.reserved_len();
        move |errno| MapError::Memory {
            doing,
            len,
            source: errno.into(),
        }
    }
}

fn check(image: &Image) -> Result<(), MapError> {
    let host = rustix::param::page_size();
    if host > PAGE && image.machine() == Machine::X64 || !host.is_multiple_of(PAGE) {
        return Err(MapError::PageSize { host });
    }
    let stripped = object::pe::IMAGE_FILE_RELOCS_STRIPPED;
    if image.header().characteristics & stripped != 0 {
        let base = image.header().preferred_base;
        return Err(MapError::NotRelocatable { base });
    }
    Ok(())
}
