//! One declaration of an export, expanded for every party.

/// The set of IRQLs (bit n = IRQL n) for which `irql OP LEVEL` holds.
macro_rules! irql_mask {
    ($op:tt $level:expr) => {{
        let mut mask = 0u16;
        let mut irql = 0u8;
        while irql < 16 {
            if irql $op $level {
                mask |= 1 << irql;
            }
            irql += 1;
        }
        mask
    }};
}

/// Declares exports of the kernel image. Expands to
///
/// 1. raw-dylib imports on Windows targets,
/// 2. plain externs elsewhere, so that driver logic type-checks on any host,
/// 3. `Table`, one field per export: whoever fills it must define them all,
/// 4. `CONTRACTS`, and `Table::exports` which pairs each address with its own.
macro_rules! image {
    (
        $( $(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?
            where irql $op:tt $level:ident $(, $effect:ident)*; )*
        $( variadic { $( $(#[$vdoc:meta])* fn $vname:ident($($varg:ident: $vty:ty),*, ...) $(-> $vret:ty)?
            where irql $vop:tt $vlevel:ident; )* } )?
    ) => {
        #[cfg(windows)]
        #[link(name = "ntoskrnl.exe", kind = "raw-dylib", modifiers = "+verbatim")]
        unsafe extern "system" { $(
            $(#[$doc])*
            #[doc = concat!("\n\nIRQL: `", stringify!($op), " ", stringify!($level), "`.")]
            pub fn $name($($arg: $ty),*) $(-> $ret)?;
        )* }
        #[cfg(not(windows))]
        unsafe extern "efiapi" { $(
            $(#[$doc])*
            #[doc = concat!("\n\nIRQL: `", stringify!($op), " ", stringify!($level), "`.")]
            pub fn $name($($arg: $ty),*) $(-> $ret)?;
        )* }
        $(
        #[cfg(windows)]
        #[link(name = "ntoskrnl.exe", kind = "raw-dylib", modifiers = "+verbatim")]
        unsafe extern "C" { $(
            $(#[$vdoc])*
            #[doc = concat!("\n\nIRQL: `", stringify!($vop), " ", stringify!($vlevel), "`.")]
            pub fn $vname($($varg: $vty),*, ...) $(-> $vret)?;
        )* }
        )?

        /// What the lab must provide; a missing or mistyped export does not compile.
        pub struct Table {
            $( pub $name: unsafe extern "efiapi" fn($($arg: $ty),*) $(-> $ret)?, )*
            $($( pub $vname: unsafe extern "efiapi" fn(slots: *const usize) $(-> $vret)?, )*)?
        }

        impl Table {
            /// Each export of this table with its contract.
            pub fn exports(&self) -> impl Iterator<Item = $crate::Export> {
                let addresses = [
                    $( self.$name as *const core::ffi::c_void, )*
                    $($( self.$vname as *const core::ffi::c_void, )*)?
                ];
                CONTRACTS.iter().zip(addresses)
                    .map(|(contract, address)| $crate::Export { contract, address })
            }
        }

        /// The contract of each export, in the order of [`Table`]'s fields.
        pub static CONTRACTS: &[$crate::Contract] = &[
            $( $crate::Contract {
                name: stringify!($name),
                irql_mask: irql_mask!($op $crate::ke::$level),
                irql: concat!(stringify!($op), " ", stringify!($level)),
                effects: $crate::Effects::NONE $(.and($crate::Effects::$effect))*,
                variadic: false,
            }, )*
            $($( $crate::Contract {
                name: stringify!($vname),
                irql_mask: irql_mask!($vop $crate::ke::$vlevel),
                irql: concat!(stringify!($vop), " ", stringify!($vlevel)),
                effects: $crate::Effects::NONE,
                variadic: true,
            }, )*)?
        ];
    };
}

/// Asserts at compile time the size of a type and the offsets of its fields.
macro_rules! layout {
    ($ty:ident, $size:expr $(, $field:ident @ $offset:expr)* $(,)?) => {
        const _: () = assert!(size_of::<$ty>() == $size, concat!("size of ", stringify!($ty)));
        $( const _: () = assert!(
            core::mem::offset_of!($ty, $field) == $offset,
            concat!(stringify!($ty), ".", stringify!($field))
        ); )*
    };
}
