//! Enumerations that stand as numbers in descriptors and in the words of calls.

/// Declares an enumeration of a representation with `ALL` and `from_code`.
macro_rules! coded {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident: $code_type:ident { $($(#[$doc:meta])* $variant:ident = $code:literal,)* }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr($code_type)]
        pub enum $name { $($(#[$doc])* $variant = $code,)* }

        impl $name {
            /// Every one, in the order of the numbers.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// That of the given number.
            pub const fn from_code(code: $code_type) -> Option<$name> {
                match code { $($code => Some($name::$variant),)* _ => None }
            }
        }
    };
}
pub(crate) use coded;
