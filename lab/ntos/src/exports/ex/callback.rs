//! Callback objects.

use std::collections::{BTreeMap, HashMap};

use nt::NTSTATUS;
use nt::base::OBJECT_ATTRIBUTES;
use nt::status::{
    STATUS_INSUFFICIENT_RESOURCES, STATUS_OBJECT_NAME_NOT_FOUND, STATUS_OBJECT_TYPE_MISMATCH,
};

use crate::guest::get;
use crate::machine::Machine;
use crate::object::Kind;
use crate::resources::Held;

/// The callback objects that the system makes.
const SYSTEM: [&str; 3] = [
    r"\callback\setsystemtime",
    r"\callback\powerstate",
    r"\callback\processoradd",
];

/// A routine that is registered with a callback object.
#[derive(Clone, Copy)]
struct Registration {
    object: u64,
    routine: u64,
    context: u64,
}

/// The callback objects of a machine and who is registered with them.
#[derive(Default)]
pub(crate) struct Callbacks {
    /// Whether each object takes more than one routine.
    multiple: HashMap<u64, bool>,
    registrations: BTreeMap<u64, Registration>,
}

impl Callbacks {
    pub(crate) fn forget_driver(&mut self) {
        self.registrations.clear();
    }

    /// Forgets an object that is gone.
    pub(in crate::exports) fn remove(&mut self, object: u64) {
        self.multiple.remove(&object);
    }

    fn takes_more(&self, object: u64) -> bool {
        let taken = self
            .registrations
            .values()
            .any(|known| known.object == object);
        !taken || self.multiple.get(&object).copied().unwrap_or(false)
    }
}

impl Machine {
    /// Finds or makes a callback object; it is referenced for the driver.
    pub(super) fn open_callback(
        &self,
        attributes: *mut OBJECT_ATTRIBUTES,
        create: bool,
        multiple: bool,
    ) -> Result<u64, NTSTATUS> {
        if self.must_fail() {
            return Err(STATUS_INSUFFICIENT_RESOURCES);
        }
        let name = if attributes.is_null() || get!(attributes, ObjectName).is_null() {
            None
        } else {
            Some(self.string(get!(attributes, ObjectName).cast_const())?)
        };
        let site = self.call_site();
        let found = name
            .as_ref()
            .and_then(|name| self.objects.borrow().lookup(name).ok());
        if let Some((object, _)) = found {
            let mut objects = self.objects.borrow_mut();
            if objects.get(object).map(|object| object.kind) != Some(Kind::Callback) {
                return Err(STATUS_OBJECT_TYPE_MISMATCH);
            }
            objects.reference(object, site);
            return Ok(object);
        }
        let system = name
            .as_ref()
            .is_some_and(|name| SYSTEM.contains(&name.to_lowercase().as_str()));
        if !create && !system {
            return Err(STATUS_OBJECT_NAME_NOT_FOUND);
        }
        let object = self
            .allocate_object(16, b"Call", Kind::Callback)
            .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        self.resources
            .borrow_mut()
            .callbacks
            .multiple
            .insert(object, multiple || system);
        let mut objects = self.objects.borrow_mut();
        if let Some(name) = &name {
            objects.set_name(object, name)?;
        }
        objects.reference(object, site);
        // The driver's reference is the only one.
        objects.dereference(object, false);
        Ok(object)
    }

    pub(super) fn register_callback(&self, object: u64, routine: u64, context: u64) -> Option<u64> {
        self.check_callback(object);
        if !self.resources.borrow().callbacks.takes_more(object) || self.must_fail() {
            return None;
        }
        let site = self.call_site();
        // A registration keeps the object alive.
        self.objects.borrow_mut().reference(object, 0);
        let mut resources = self.resources.borrow_mut();
        let handle = resources.new_handle();
        resources.hold(Held::CallbackRegistration, handle, site);
        let registration = Registration {
            object,
            routine,
            context,
        };
        resources
            .callbacks
            .registrations
            .insert(handle, registration);
        Some(handle)
    }

    pub(super) fn unregister_callback(&self, handle: u64) {
        self.must_hold(Held::CallbackRegistration, handle);
        let removed = self
            .resources
            .borrow_mut()
            .callbacks
            .registrations
            .remove(&handle);
        if let Some(registration) = removed {
            let left = self
                .objects
                .borrow_mut()
                .dereference(registration.object, false);
            self.settle_object(registration.object, left.unwrap_or(0));
        }
    }

    pub(super) fn notify_callback(&self, object: u64, argument1: u64, argument2: u64) {
        self.check_callback(object);
        let registered: Vec<Registration> = {
            let resources = self.resources.borrow();
            let all = resources.callbacks.registrations.values();
            all.filter(|known| known.object == object)
                .copied()
                .collect()
        };
        for known in registered {
            self.call(known.routine, [known.context, argument1, argument2, 0]);
        }
    }

    fn check_callback(&self, object: u64) {
        let kind = self.objects.borrow().get(object).map(|object| object.kind);
        if kind != Some(Kind::Callback) {
            self.violate(
                lab_verifier::RuleId::BadObject,
                [object, 0, 0, 0],
                format!("{object:#x} is no callback object"),
            );
        }
    }
}
