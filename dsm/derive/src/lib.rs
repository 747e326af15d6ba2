//! Derive macro of `pangea::Portable`.

use proc_macro::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Result, parse_macro_input};

/// Derives `Portable` for a struct of `Portable` fields, if its layout is fixed (`repr(C)` or
/// `repr(transparent)`) and has no padding: an error to compile otherwise. What the fields are, and
/// where, is compared with what other nodes were built from when they join.
#[proc_macro_derive(Portable)]
pub fn derive_portable(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    portable(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn portable(input: &DeriveInput) -> Result<proc_macro2::TokenStream> {
    let Data::Struct(data) = &input.data else {
        let message =
            "Portable is for structs: not every bit pattern is an enum's or a union's value";
        return Err(Error::new_spanned(&input.ident, message));
    };
    if !has_fixed_layout(input)? {
        let message = "Portable needs #[repr(C)] or #[repr(transparent)]: its layout must be the \
                       same on every node";
        return Err(Error::new_spanned(&input.ident, message));
    }
    if !input.generics.params.is_empty() {
        let message =
            "Portable cannot be derived with parameters: padding is checked for one layout";
        return Err(Error::new_spanned(&input.generics, message));
    }
    let types: Vec<_> = data.fields.iter().map(|field| &field.ty).collect();
    let fields: Vec<_> = data.fields.members().collect();
    let name = &input.ident;
    Ok(quote! {
        // SAFETY: every field is `Portable`, and there is no padding between them: both are checked
        // below, at compile time.
        unsafe impl ::pangea::Portable for #name {
            const LAYOUT: ::pangea::Layout = ::pangea::Layout::of::<#name>(stringify!(#name))
                #(.field(
                    stringify!(#fields),
                    ::core::mem::offset_of!(#name, #fields),
                    <#types as ::pangea::Portable>::LAYOUT,
                ))*;
        }
        const _: () = {
            const fn portable<T: ::pangea::Portable>() -> usize {
                ::core::mem::size_of::<T>()
            }
            let fields = 0 #(+ portable::<#types>())*;
            assert!(fields == ::core::mem::size_of::<#name>(), "a Portable struct has no padding");

            #[::pangea::__private::linkme::distributed_slice(::pangea::__private::TYPES)]
            #[linkme(crate = ::pangea::__private::linkme)]
            static SHARED: ::pangea::__private::Shared = (
                ::core::concat!(::core::module_path!(), "::", stringify!(#name)),
                <#name as ::pangea::Portable>::LAYOUT,
            );
        };
    })
}

fn has_fixed_layout(input: &DeriveInput) -> Result<bool> {
    let mut is_fixed = false;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        attribute.parse_nested_meta(|meta| {
            is_fixed |= meta.path.is_ident("C") || meta.path.is_ident("transparent");
            // `align(N)` and `packed(N)` carry an argument, which the size check judges.
            if meta.input.peek(syn::token::Paren) {
                let argument;
                syn::parenthesized!(argument in meta.input);
                argument.parse::<proc_macro2::TokenStream>()?;
            }
            Ok(())
        })?;
    }
    Ok(is_fixed)
}
