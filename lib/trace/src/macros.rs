//! The macros at the call site. What a flavour leaves out is checked by the compiler and leaves nothing.
//!
//! | flavour | cold | hot |
//! |---|---|---|
//! | `unchecked` | – | – |
//! | `cold` | recorded | – |
//! | `all` | recorded | recorded |
//! | `debug` | printed | printed |

/// A message on a path that is seldom taken.
///
/// `cold!(Warning, FLAG, "what happens", name: type = value, …)`; the types are
/// [arguments](crate::Argument), and their names are in the driver file only. Before the level may stand
/// `at here;` with a [proof](crate::AtDispatch) that this is at `DISPATCH_LEVEL` or above, which makes the
/// event cheaper, or `burst here;` which also leaves out the time: it is that of the event before.
#[macro_export]
macro_rules! cold {
    ($($event:tt)*) => { $crate::__cold!(Message $($event)*) };
}

/// As [`cold!`], on a path where every nanosecond counts: recorded in the flavour `all` only.
#[macro_export]
macro_rules! hot {
    ($($event:tt)*) => { $crate::__hot!(Message $($event)*) };
}

/// An error: a cold message of that level.
#[macro_export]
macro_rules! cold_error {
    ($($event:tt)*) => { $crate::__cold!(Message Error, $($event)*) };
}

/// A cold function begins: `cold_enter!(FLAG, irp: Irp = irp.into())`.
#[macro_export]
macro_rules! cold_enter {
    ($flag:expr $(, $($field:tt)*)?) => { $crate::__cold!(Enter Information, $flag, "" $(, $($field)*)?) };
}

/// A cold function ends: `cold_exit!(FLAG, status: NTSTATUS = status)`.
#[macro_export]
macro_rules! cold_exit {
    ($flag:expr $(, $($field:tt)*)?) => { $crate::__cold!(Exit Information, $flag, "" $(, $($field)*)?) };
}

/// A cold function begins here and ends with the block.
#[macro_export]
macro_rules! cold_scope {
    ($($scope:tt)*) => { $crate::__scope!(__cold Information, $($scope)*); };
}

/// A hot function begins.
#[macro_export]
macro_rules! hot_enter {
    ($flag:expr $(, $($field:tt)*)?) => { $crate::__hot!(Enter Verbose, $flag, "" $(, $($field)*)?) };
}

/// A hot function ends.
#[macro_export]
macro_rules! hot_exit {
    ($flag:expr $(, $($field:tt)*)?) => { $crate::__hot!(Exit Verbose, $flag, "" $(, $($field)*)?) };
}

/// A hot function begins here and ends with the block.
#[macro_export]
macro_rules! hot_scope {
    ($($scope:tt)*) => { $crate::__scope!(__hot Verbose, $($scope)*); };
}

/// A function begins here and ends with the block, on the path whose macro this is.
#[macro_export]
#[doc(hidden)]
macro_rules! __scope {
    ($path:ident $level:ident, $flag:expr $(, $($field:tt)*)?) => {
        $crate::$path!(Enter $level, $flag, "" $(, $($field)*)?);
        let _exit = {
            struct Exit;
            impl Drop for Exit {
                #[inline(always)]
                fn drop(&mut self) {
                    $crate::$path!(ScopeExit $level, $flag, "");
                }
            }
            Exit
        };
    };
}

/// Which paths a flavour has.
#[cfg(flavour = "unchecked")]
#[doc(hidden)]
#[macro_export]
macro_rules! __cold {
    ($($event:tt)*) => { $crate::__left_out!($($event)*) };
}
#[cfg(any(flavour = "cold", flavour = "all"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __cold {
    ($($event:tt)*) => { $crate::__event!(Cold $($event)*) };
}
#[cfg(flavour = "debug")]
#[doc(hidden)]
#[macro_export]
macro_rules! __cold {
    ($($event:tt)*) => { $crate::__print!($($event)*) };
}
#[cfg(any(flavour = "unchecked", flavour = "cold"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __hot {
    ($($event:tt)*) => { $crate::__left_out!($($event)*) };
}
#[cfg(flavour = "all")]
#[doc(hidden)]
#[macro_export]
macro_rules! __hot {
    ($($event:tt)*) => { $crate::__event!(Hot $($event)*) };
}
#[cfg(flavour = "debug")]
#[doc(hidden)]
#[macro_export]
macro_rules! __hot {
    ($($event:tt)*) => { $crate::__print!($($event)*) };
}

/// Nothing: only its types are checked.
#[doc(hidden)]
#[macro_export]
macro_rules! __left_out {
    ($form:ident at $here:expr; $($event:tt)*) => {
        if false { $crate::require_dispatch(&$here); $crate::__left_out!($form $($event)*); }
    };
    ($form:ident burst $here:expr; $($event:tt)*) => { $crate::__left_out!($form at $here; $($event)*) };
    ($form:ident $level:ident, $flag:expr, $text:literal $(, $name:ident: $type:ty = $value:expr)* $(,)?) => {
        if false {
            let _: $crate::Flag = $flag;
            $( let _: $type = $value; )*
        }
    };
}

/// A line for the kernel debugger, at once.
#[doc(hidden)]
#[macro_export]
macro_rules! __print {
    ($form:ident at $here:expr; $($event:tt)*) => {{
        $crate::require_dispatch(&$here);
        $crate::__print!($form $($event)*)
    }};
    ($form:ident burst $here:expr; $($event:tt)*) => { $crate::__print!($form at $here; $($event)*) };
    ($form:ident $level:ident, $flag:expr, $text:literal $(, $name:ident: $type:ty = $value:expr)* $(,)?) => {{
        const SITE: &$crate::Site = &$crate::__site!(Cold $form $level, $flag, $text $(, $name: $type)*);
        let mut words = $crate::Words::<{ SITE.words() }>::new();
        $( <$type as $crate::Argument>::push($value, &mut words); )*
        $crate::debug::print(SITE, words.as_slice());
    }};
}

/// What describes a site.
#[doc(hidden)]
#[macro_export]
macro_rules! __site {
    ($heat:ident $form:ident $level:ident, $flag:expr, $text:literal $(, $name:ident: $type:ty)*) => {
        $crate::Site {
            level: $crate::format::Level::$level,
            flag: $flag,
            form: $crate::format::Form::$form,
            heat: $crate::format::Heat::$heat,
            line: line!(),
            module: module_path!(),
            file: file!(),
            text: $text,
            fields: &[$( $crate::Field::of::<$type>(stringify!($name)) ),*],
        }
    };
}

/// A site that records: its description, its test, and, out of the way, the event.
#[doc(hidden)]
#[macro_export]
macro_rules! __event {
    ($heat:ident $form:ident at $here:expr; $($event:tt)*) => {{
        $crate::require_dispatch(&$here);
        $crate::__event!(dispatch Dispatch; $heat $form $($event)*)
    }};
    ($heat:ident $form:ident burst $here:expr; $($event:tt)*) => {{
        $crate::require_dispatch(&$here);
        $crate::__event!(burst Burst; $heat $form $($event)*)
    }};
    ($heat:ident $form:ident $level:ident, $($event:tt)*) => {
        $crate::__event!(any Any; $heat $form $level, $($event)*)
    };
    ($routine:ident $how:ident; $heat:ident $form:ident $level:ident, $flag:expr, $text:literal
        $(, $name:ident: $type:ty = $value:expr)* $(,)?) => {{
        const SITE: $crate::Site = $crate::__site!($heat $form $level, $flag, $text $(, $name: $type)*);
        #[cfg_attr(windows, unsafe(link_section = "PAGETRC$d"))]
        static DESCRIPTION: [u8; SITE.bytes()] = SITE.describe();
        $crate::__when_on!(DESCRIPTION, SITE, {
            #[allow(unused_mut, reason = "an event without arguments pushes none")]
            let mut words = $crate::Words::<{ SITE.words() }>::new();
            $( <$type as $crate::Argument>::push($value, &mut words); )*
            if const { SITE.is_short() } {
                let (first, second) = words.first_two();
                $crate::__short!(DESCRIPTION, $routine, $how, first, second);
            } else {
                $crate::__long!(DESCRIPTION, $how, words);
            }
        });
    }};
}

/// The test and its switch: two instructions and nine bytes while it is off, wherever the event is.
#[cfg(all(target_arch = "x86_64", windows))]
#[doc(hidden)]
#[macro_export]
macro_rules! __when_on {
    ($description:ident, $site:ident, $event:block) => {
        // SAFETY: reads a byte that is there as long as this code, and goes on or into the block.
        unsafe {
            ::core::arch::asm!(
                ".pushsection .tren$m,\"dw\"",
                ".p2align 2",
                "4: .byte 0, {level}, {flag}, 0",
                ".popsection",
                ".pushsection PAGETRC$n,\"dr\"",
                ".p2align 2",
                ".long 4b@IMGREL, ({description})@IMGREL, 5f@IMGREL",
                ".popsection",
                "5: cmpb $0, 4b(%rip)",
                "je 6f",
                "jmp {on}",
                "6:",
                level = const $site.level as u8,
                flag = const $site.flag.bit,
                description = sym $description,
                on = label {
                    ::core::hint::cold_path();
                    $event
                },
                options(att_syntax, nostack, readonly),
            );
        }
    };
}
#[cfg(all(target_arch = "x86_64", not(windows)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __when_on {
    ($description:ident, $site:ident, $event:block) => {
        // SAFETY: reads a byte that is there as long as this code, and goes on or into the block.
        unsafe {
            ::core::arch::asm!(
                ".pushsection drydock_switches,\"aw\"",
                ".p2align 2",
                "4: .byte 0, {level}, {flag}, 0",
                ".popsection",
                "cmpb $0, 4b(%rip)",
                "je 6f",
                "jmp {on}",
                "6:",
                level = const $site.level as u8,
                flag = const $site.flag.bit,
                on = label {
                    ::core::hint::cold_path();
                    $event
                },
                options(att_syntax, nostack, readonly),
            );
        }
    };
}
#[cfg(target_arch = "aarch64")]
#[doc(hidden)]
#[macro_export]
macro_rules! __when_on {
    ($description:ident, $site:ident, $event:block) => {
        let switch: *const ::core::sync::atomic::AtomicU8;
        // SAFETY: gives an address.
        unsafe {
            ::core::arch::asm!(
                ".pushsection .tren$m,\"dw\"",
                ".p2align 2",
                "4: .byte 0, {level}, {flag}, 0",
                ".popsection",
                ".pushsection PAGETRC$n,\"dr\"",
                ".p2align 2",
                ".long 4b@IMGREL",
                ".long ({description})@IMGREL",
                ".long 5f@IMGREL",
                ".popsection",
                "5: adrp {switch}, 4b",
                "add {switch}, {switch}, :lo12:4b",
                level = const $site.level as u8,
                flag = const $site.flag.bit,
                description = sym $description,
                switch = out(reg) switch,
                options(nostack, nomem, preserves_flags),
            );
        }
        // SAFETY: a switch, which is there as long as this code.
        if unsafe { &*switch }.load(::core::sync::atomic::Ordering::Relaxed) != 0 {
            ::core::hint::cold_path();
            $event
        }
    };
}

/// An event of up to two words.
#[cfg(all(target_arch = "x86_64", windows))]
#[doc(hidden)]
#[macro_export]
macro_rules! __short {
    ($description:ident, $routine:ident, $how:ident, $first:ident, $second:ident) => {
        // SAFETY: registers are as the routine has them.
        unsafe {
            ::core::arch::asm!(
                ".pushsection PAGETRC$m,\"dr\"",
                ".p2align 2",
                "2: .long ({description})@IMGREL, 3f@IMGREL",
                ".popsection",
                "3: movl $2b@IMGREL, %eax",
                "call {routine}",
                description = sym $description,
                routine = sym $crate::thunk::$routine,
                out("eax") _,
                inout("r10") $first => _,
                inout("r11") $second => _,
                options(att_syntax, nostack),
            );
        }
    };
}
#[cfg(all(target_arch = "x86_64", not(windows)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __short {
    ($description:ident, $routine:ident, $how:ident, $first:ident, $second:ident) => {
        // SAFETY: registers are as the routine has them.
        unsafe {
            ::core::arch::asm!(
                "leal {description}(%rip), %eax",
                "call {routine}",
                description = sym $description,
                routine = sym $crate::thunk::$routine,
                out("eax") _,
                inout("r10") $first => _,
                inout("r11") $second => _,
                options(att_syntax),
            );
        }
    };
}
#[cfg(target_arch = "aarch64")]
#[doc(hidden)]
#[macro_export]
macro_rules! __short {
    ($description:ident, $routine:ident, $how:ident, $first:ident, $second:ident) => {
        $crate::thunk::record(
            $crate::__id!($description),
            $crate::thunk::How::$how,
            &[$first, $second],
        );
    };
}

/// An event of any number of words.
#[doc(hidden)]
#[macro_export]
macro_rules! __long {
    ($description:ident, $how:ident, $words:ident) => {
        $crate::thunk::record(
            $crate::__id!($description),
            $crate::thunk::How::$how,
            $words.as_slice(),
        );
    };
}

/// The id of this copy.
#[cfg(all(target_arch = "x86_64", windows))]
#[doc(hidden)]
#[macro_export]
macro_rules! __id {
    ($description:ident) => {{
        let id: u32;
        // SAFETY: gives a number.
        unsafe {
            ::core::arch::asm!(
                ".pushsection PAGETRC$m,\"dr\"",
                ".p2align 2",
                "2: .long ({description})@IMGREL, 3f@IMGREL",
                ".popsection",
                "3: movl $2b@IMGREL, {id:e}",
                description = sym $description,
                id = out(reg) id,
                options(att_syntax, nostack, nomem, preserves_flags),
            );
        }
        id
    }};
}
#[cfg(all(target_arch = "x86_64", not(windows)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __id {
    ($description:ident) => {
        $crate::format::slot::low((&raw const $description).addr() as u64)
    };
}
#[cfg(target_arch = "aarch64")]
#[doc(hidden)]
#[macro_export]
macro_rules! __id {
    ($description:ident) => {{
        let event: usize;
        // SAFETY: gives an address.
        unsafe {
            ::core::arch::asm!(
                ".pushsection PAGETRC$m,\"dr\"",
                ".p2align 2",
                "2: .long ({description})@IMGREL",
                ".long 3f@IMGREL",
                ".popsection",
                "3: adrp {event}, 2b",
                "add {event}, {event}, :lo12:2b",
                description = sym $description,
                event = out(reg) event,
                options(nostack, nomem, preserves_flags),
            );
        }
        $crate::thunk::id_of(event)
    }};
}
