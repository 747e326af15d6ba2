//! The verbs library, loaded at run time: a program starts where there is none.

use std::{
    env,
    ffi::{CStr, CString, c_char, c_int, c_void},
    fmt, io, mem,
    ptr::NonNull,
    sync::Arc,
};

use super::sys::{self, function};
use crate::{Error, Result};

/// Names another library with the same interface.
pub const LIBRARY_VARIABLE: &str = "PANGEA_VERBS_LIBRARY";

/// Declares the table of functions, and how it is filled.
macro_rules! functions {
    ($($name:ident),* $(,)?) => {
        /// What the library exports, by the header's names.
        pub(super) struct Functions {
            $(pub(super) $name: function::$name,)*
            /// Older libraries, and macOS's, have no such function.
            pub(super) ibv_query_gid_ex: Option<function::ibv_query_gid_ex>,
        }

        impl Functions {
            /// # Safety
            ///
            /// `handle` must be a library whose functions of these names have the header's types.
            unsafe fn find(handle: NonNull<c_void>, library: &str) -> Result<Self> {
                $(
                    let name = concat!(stringify!($name), "\0");
                    let found = symbol(handle, name).ok_or_else(|| missing(library, name))?;
                    let $name =
                        // SAFETY: the caller vouches that the function has this type; a function's
                        // address and a data pointer are of one size wherever there is `dlsym`.
                        unsafe { mem::transmute::<NonNull<c_void>, function::$name>(found) };
                )*
                let ibv_query_gid_ex = symbol(handle, "_ibv_query_gid_ex\0").map(|found| {
                    // SAFETY: as above.
                    unsafe { mem::transmute::<NonNull<c_void>, function::ibv_query_gid_ex>(found) }
                });
                Ok(Self { $($name,)* ibv_query_gid_ex })
            }
        }
    };
}

functions!(
    ibv_get_device_list,
    ibv_free_device_list,
    ibv_get_device_name,
    ibv_open_device,
    ibv_close_device,
    ibv_query_device,
    ibv_query_port,
    ibv_query_gid,
    ibv_alloc_pd,
    ibv_dealloc_pd,
    ibv_reg_mr,
    ibv_dereg_mr,
    ibv_create_comp_channel,
    ibv_destroy_comp_channel,
    ibv_create_cq,
    ibv_destroy_cq,
    ibv_get_cq_event,
    ibv_ack_cq_events,
    ibv_create_qp,
    ibv_destroy_qp,
    ibv_modify_qp,
);

/// A loaded library. It is never unloaded: drivers leave threads and handlers behind.
pub struct Library {
    pub(super) functions: Functions,
    name: String,
}

impl Library {
    /// Loads the system's library, or the one that the environment variable
    /// `PANGEA_VERBS_LIBRARY` names.
    pub fn load() -> Result<Arc<Self>> {
        Self::open(env::var(LIBRARY_VARIABLE).unwrap_or_else(|_| sys::LIBRARY.to_owned()))
    }

    fn open(name: String) -> Result<Arc<Self>> {
        let path = CString::new(name.as_str()).map_err(|_| Error::Config {
            field: LIBRARY_VARIABLE,
            reason: "a path has no zero byte".to_owned(),
        })?;
        // RTLD_LAZY is known to hang macOS's library.
        // SAFETY: `path` is a C string that lives during the call. Loading runs the library's
        // initialisers: whoever sets the variable, or installs the library, vouches for them.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        let handle = NonNull::new(handle).ok_or_else(|| not_loaded(&name))?;
        // SAFETY: a library of this name has the verbs' interface, as far as anybody can tell.
        let functions = unsafe { Functions::find(handle, &name) }?;
        Ok(Arc::new(Self { functions, name }))
    }

    /// The refusal of `call` by `device`, from the error number that the call left.
    #[cold]
    pub(super) fn refusal(device: &str, call: &'static str) -> Error {
        refused(device, call, &io::Error::last_os_error())
    }

    /// Turns what a function returned into a result: zero is success, an error number of either
    /// sign is a refusal, and so is -1 with the number left aside.
    pub(super) fn check(returned: c_int, device: &str, call: &'static str) -> Result {
        match returned {
            0 => Ok(()),
            -1 => Err(Self::refusal(device, call)),
            errno => Err(refused(device, call, &io::Error::from_raw_os_error(errno.abs()))),
        }
    }

    /// Names the library in an error about all of it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").field("name", &self.name).finish_non_exhaustive()
    }
}

fn refused(device: &str, call: &'static str, error: &io::Error) -> Error {
    let remedy = error.raw_os_error().and_then(sys::remedy);
    let reason = remedy.map_or_else(|| error.to_string(), |remedy| format!("{error}; {remedy}"));
    Error::Device { device: device.to_owned(), call, reason }
}

fn symbol(handle: NonNull<c_void>, name: &str) -> Option<NonNull<c_void>> {
    assert!(name.ends_with('\0'), "a C string");
    // SAFETY: `handle` is an open library, and `name` a C string (asserted).
    NonNull::new(unsafe { libc::dlsym(handle.as_ptr(), name.as_ptr().cast()) })
}

fn missing(library: &str, name: &str) -> Error {
    Error::Device {
        device: library.to_owned(),
        call: "dlsym",
        reason: format!("it has no {}: it is no verbs library", name.trim_end_matches('\0')),
    }
}

fn not_loaded(library: &str) -> Error {
    // SAFETY: the text belongs to this thread until its next call of the loader.
    let text = unsafe { libc::dlerror() };
    let text = text_of(text).unwrap_or_else(|| "for no reason given".to_owned());
    let remedy = sys::LIBRARY_REMEDY;
    let reason = format!("{text}; {remedy}");
    Error::Device { device: library.to_owned(), call: "dlopen", reason }
}

/// A copy of a C string that the library owns.
pub(super) fn text_of(text: *const c_char) -> Option<String> {
    let text = NonNull::new(text.cast_mut())?;
    // SAFETY: callers pass what a function of the system returned as a C string; it is copied
    // before anything else is called.
    Some(unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_missing_or_another_says_so() {
        let error = Library::open("libpangea-missing.so".to_owned()).unwrap_err().to_string();
        assert!(error.contains("libpangea-missing.so: dlopen: "), "{error}");
        assert!(error.ends_with(sys::LIBRARY_REMEDY), "{error}");
        let error = Library::open("zero\0byte".to_owned()).unwrap_err().to_string();
        assert!(error.starts_with(LIBRARY_VARIABLE), "{error}");
    }

    #[test]
    fn an_error_number_of_either_sign_is_named() {
        for returned in [libc::ENOMEM, -libc::ENOMEM] {
            let error = Library::check(returned, "rdma0", "a call").unwrap_err().to_string();
            assert!(error.starts_with("rdma0: a call: "), "{error}");
            assert!(error.contains(sys::remedy(libc::ENOMEM).unwrap()), "{error}");
        }
        assert!(Library::check(0, "rdma0", "a call").is_ok());
    }
}
