//! The one list of what a backend must pass, as a test for each part. A backend names its type and
//! how its stores are opened; a part that is added here is a test of every backend.

/// The tests of everything that a backend keeps. `check` gives rules a factory of empty stores:
/// `fn check(rules: fn(&dyn Fn() -> Store))`.
#[macro_export]
macro_rules! conformance_tests {
    ($store:ty, $check:path) => {
        $crate::conformance_tests! { @parts $check:
            append append,
            inbox inbox,
            claim claim,
            blob blob,
            catalogue catalogue,
            query query,
            checkpoint checkpoint,
            compact compact,
            sleep sleep,
            admission admission,
            dead dead,
            audit audit,
            secrets secrets,
            retention retention,
            schedule schedule,
            hook hook,
            notes key_value,
            places places,
            pools pools,
            leases leases,
            work work,
            settle settle,
            wakes wakes
        }

        #[test]
        fn the_store_is_a_backend() {
            fn backend<S: $crate::Backend>() {}
            backend::<$store>();
        }
    };
    (@parts $check:path: $($name:ident $part:ident),+) => {
        $(
            #[test]
            fn $name() {
                $check(|open| $crate::conformance::$part::all(open));
            }
        )+
    };
}

/// The tests of what expires, for a backend with a clock that a test can set: `frozen` gives a store
/// and what lets so many milliseconds pass.
#[macro_export]
macro_rules! expiry_tests {
    ($frozen:path) => {
        #[test]
        fn leases_expire() {
            $crate::conformance::leases::expiry(&$frozen);
        }

        #[test]
        fn work_expires() {
            $crate::conformance::work::expiry(&$frozen);
        }
    };
}
