//! What the nodes of a job must have in common to understand each other.
//!
//! ```text
//! build  software (1 + n) types (2), each: name (1 + n) layout (8); little-endian, in order
//! ```
//!
//! The programs of a job need not be the same: a type counts where two of them have it.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use super::{bytes::digest, rest::Rest};
use crate::{Error, Result};

/// Bytes of the longest build. Of a program with more types than fit, the first ones by name are
/// told: others are compared where they are used.
pub(super) const LEN_MAX: usize = 64 * 1024;
/// Bytes of the longest text in it.
const TEXT_LEN_MAX: usize = 255;

/// What one node was built from.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Build {
    // The library, and the versions of what it says.
    software: String,
    // The layout of each type, by name.
    types: BTreeMap<String, u64>,
}

impl Build {
    /// A program that uses the library `software`, and has `types`: their names, and numbers that
    /// stand for their layouts. Several of one name, as functions may have, count as one.
    pub fn new<'a>(software: &str, types: impl IntoIterator<Item = (&'a str, u64)>) -> Self {
        let mut layouts: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
        for (name, layout) in types {
            layouts.entry(cut(name)).or_default().insert(layout);
        }
        let mut left = LEN_MAX - (1 + TEXT_LEN_MAX + 2);
        let fits = |(name, _): &(&str, _)| {
            let after = left.checked_sub(1 + name.len() + 8);
            after.inspect(|after| left = *after).is_some()
        };
        let types = layouts.into_iter().take_while(fits).map(|(name, layouts)| {
            let together = layouts.into_iter().reduce(|sum, one| digest(sum, &one.to_le_bytes()));
            (name.to_owned(), together.unwrap_or_default())
        });
        let types = types.collect();
        Self { software: cut(software).to_owned(), types }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        push_text(&mut bytes, &self.software);
        bytes.extend(u16::try_from(self.types.len()).expect("all fit").to_le_bytes());
        for (name, layout) in &self.types {
            push_text(&mut bytes, name);
            bytes.extend(layout.to_le_bytes());
        }
        bytes
    }

    /// The build at the start of `rest`.
    pub(super) fn decode(rest: &mut Rest<'_>) -> Result<Self> {
        let software = text(rest)?;
        let count = rest.u16()?;
        let mut types = BTreeMap::new();
        for _ in 0..count {
            let (name, layout) = (text(rest)?, rest.u64()?);
            if types.last_key_value().is_some_and(|(last, _)| *last >= name) {
                return Err(Error::protocol("types that are not in the order of their names"));
            }
            types.insert(name, layout);
        }
        Ok(Self { software, types })
    }
}

/// The start of `text`, as long as it may be.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_LEN_MAX)]
}

fn push_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.push(u8::try_from(text.len()).expect("it was cut"));
    bytes.extend(text.as_bytes());
}

fn text(rest: &mut Rest<'_>) -> Result<String> {
    let len = usize::from(rest.u8()?);
    let text = str::from_utf8(rest.bytes(len)?).ok();
    let text = text.filter(|text| !text.contains(char::is_control));
    text.map(str::to_owned).ok_or_else(|| Error::protocol("a name that is no text"))
}

/// What the nodes that have come so far have in common.
#[derive(Debug, Default)]
pub(super) struct Agreement {
    software: Option<Agreed<String>>,
    types: BTreeMap<String, Agreed<u64>>,
}

/// Something, and a node that has it so.
#[derive(Debug)]
struct Agreed<T> {
    value: T,
    node: String,
}

impl Agreement {
    /// Takes in the build of `node`, or says why it cannot work with those before it.
    pub(super) fn join(&mut self, node: &str, build: Build) -> Result<(), String> {
        let Build { software, types } = build;
        let differs = |what: String| Err(format!("{what}; build all nodes from the same source"));
        let agreed = |value| Agreed { value, node: node.to_owned() };
        let first = self.software.get_or_insert_with(|| agreed(software.clone()));
        if first.value != software {
            let Agreed { value, node: other } = first;
            return differs(format!("{node} runs {software}, {other} {value}"));
        }
        for (name, value) in types {
            match self.types.entry(name) {
                Entry::Vacant(entry) => _ = entry.insert(Agreed { value, node: node.to_owned() }),
                Entry::Occupied(entry) if entry.get().value != value => {
                    let (name, other) = (entry.key(), &entry.get().node);
                    return differs(format!(
                        "the type {name} has one layout in {node}, another in {other}"
                    ));
                }
                Entry::Occupied(_) => {}
            }
        }
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SHARED: (&str, u64) = ("shared::Sample", 1);

    /// What a node that has `types` hears after one that has [`SHARED`].
    fn second<const N: usize>(software: &str, types: [(&str, u64); N]) -> Result<(), String> {
        let mut agreement = Agreement::default();
        agreement.join("node 0", Build::new("pangea 1", [SHARED])).unwrap();
        agreement.join("node 1", Build::new(software, types))
    }

    #[test]
    fn programs_that_share_a_type_agree_on_it() {
        second("pangea 1", []).unwrap();
        second("pangea 1", [SHARED, ("other::Sample", 2)]).unwrap();
        let reason = second("pangea 1", [("a", 1), ("shared::Sample", 2)]).unwrap_err();
        for part in ["shared::Sample", "node 0", "node 1", "the same source"] {
            assert!(reason.contains(part), "{reason}");
        }
        let reason = second("pangea 2", [SHARED]).unwrap_err();
        assert!(reason.contains("node 1 runs pangea 2, node 0 pangea 1"), "{reason}");
    }

    #[test]
    fn what_was_agreed_on_with_anybody_counts() {
        let mut agreement = Agreement::default();
        agreement.join("node 0", Build::new("", [])).unwrap();
        agreement.join("node 1", Build::new("", [SHARED])).unwrap();
        let reason = agreement.join("node 2", Build::new("", [(SHARED.0, 9)])).unwrap_err();
        assert!(reason.contains("node 1") && reason.contains("node 2"), "{reason}");
    }

    #[test]
    fn the_order_in_which_types_were_linked_does_not_matter() {
        let types = [("b", 1), ("a", 2), ("b", 3), ("a", 2)];
        let build = Build::new("pangea", types);
        for turn in 0..types.len() {
            let mut turned = types;
            turned.rotate_left(turn);
            assert_eq!(Build::new("pangea", turned), build);
        }
        assert_eq!(build.types["a"], 2);
        assert_ne!(build, Build::new("pangea", [("a", 2), ("b", 1)]));
        assert_ne!(build, Build::new("pangea", [("a", 2), ("b", 3)]));
    }

    #[test]
    fn a_build_survives_the_wire_and_is_bounded() {
        let names: Vec<String> =
            (0..5000).map(|n| format!("{n:04}{}", "é".repeat(n % 200))).collect();
        let types = || (0..).zip(&names).map(|(layout, name)| (name.as_str(), layout));
        for count in [0, 1, 100, 5000] {
            let build = Build::new(&"x".repeat(count), types().take(count));
            let encoded = build.encode();
            assert!(encoded.len() <= LEN_MAX);
            let mut rest = Rest(&encoded);
            assert_eq!(Build::decode(&mut rest).unwrap(), build);
            assert!(rest.end().is_ok());
            assert!(count > 100 || build.types.len() == count);
            for len in (0..encoded.len()).take(1000) {
                Build::decode(&mut Rest(&encoded[..len])).unwrap_err();
            }
        }
    }

    #[test]
    fn types_out_of_order_are_refused() {
        let mut bytes = Build::new("", [("a", 1), ("b", 2)]).encode();
        let b = bytes.iter().position(|byte| *byte == b'b').unwrap();
        bytes[b] = b'a';
        let error = Build::decode(&mut Rest(&bytes)).unwrap_err().to_string();
        assert!(error.contains("order of their names"), "{error}");
    }
}
