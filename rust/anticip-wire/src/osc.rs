//! A zero-copy parser of Open Sound Control 1.0.
//!
//! Unlike `rosc`, which builds a `String` and a `Vec` for every message and recurses as deep as the datagram nests, it
//! allocates nothing, limits the depth, and drops one bad message rather than the datagram. The tests compare the two.

use crate::WireError;

/// Bundles nest at most this deep.
const MAX_DEPTH: usize = 8;

const BUNDLE: &[u8] = b"#bundle\0";

/// A message with a well-formed address and type tags.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Message<'a> {
    /// Address, without the padding.
    pub(crate) address: &'a [u8],
    /// Type tags, without the comma; empty if the sender left them out.
    pub(crate) tags: &'a [u8],
    /// The encoded arguments.
    pub(crate) arguments: &'a [u8],
}

/// Whether a datagram is a bundle.
pub(crate) fn is_bundle(datagram: &[u8]) -> bool {
    datagram.starts_with(BUNDLE)
}

/// Splits `data` into the string it begins with and the bytes after its padding.
#[inline]
pub(crate) fn string(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = data.iter().position(|byte| *byte == 0)?;
    let after = data.get((end & !3) + 4..)?;
    Some((&data[..end], after))
}

/// Removes the first `N` bytes of `data`.
#[inline]
fn take<const N: usize>(data: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = data.split_first_chunk()?;
    *data = rest;
    Some(*first)
}

/// The first `N` arguments as numbers, or `None` if one is missing or no number. Integers count, as some languages send
/// whole floats as integers.
#[inline]
pub(crate) fn numbers<const N: usize>(tags: &[u8], mut data: &[u8]) -> Option<[f64; N]> {
    let mut numbers = [0.0; N];
    for (i, number) in numbers.iter_mut().enumerate() {
        *number = match tags.get(i)? {
            b'f' => f32::from_be_bytes(take(&mut data)?).into(),
            b'i' => i32::from_be_bytes(take(&mut data)?).into(),
            b'd' => f64::from_be_bytes(take(&mut data)?),
            b'h' => i64::from_be_bytes(take(&mut data)?) as f64,
            _ => return None,
        };
    }
    Some(numbers)
}

/// Parses `data` as one message.
#[inline]
pub(crate) fn message(data: &[u8]) -> Option<Message<'_>> {
    if data.first() != Some(&b'/') {
        return None;
    }
    let (address, rest) = string(data)?;
    if rest.is_empty() {
        return Some(Message {
            address,
            tags: &[],
            arguments: &[],
        });
    }
    let (tags, arguments) = string(rest)?;
    Some(Message {
        address,
        tags: tags.strip_prefix(b",")?,
        arguments,
    })
}

/// Checks the sizes of all elements of a bundle, including nested ones. Must precede [`walk`].
pub(crate) fn check(datagram: &[u8]) -> Result<(), WireError> {
    if is_bundle(datagram) {
        check_bundle(datagram, 0, 0)
    } else {
        Ok(())
    }
}

fn check_bundle(data: &[u8], base: usize, depth: usize) -> Result<(), WireError> {
    if depth >= MAX_DEPTH {
        return Err(WireError::malformed(base, "bundles nested deeper than 8"));
    }
    // In a nested bundle an element's size is wrong; in the outermost one the datagram was cut short.
    let too_short = |what, at: usize, needed, left| {
        if depth == 0 {
            WireError::Truncated {
                what,
                at,
                needed,
                left,
            }
        } else {
            WireError::malformed(at, "an element reaches beyond its bundle")
        }
    };
    let Some(mut rest) = data.get(16..) else {
        return Err(too_short("a bundle's time tag", base, 16, data.len()));
    };
    let mut at = base + 16;
    while !rest.is_empty() {
        let Some((size, after)) = rest.split_first_chunk::<4>() else {
            return Err(too_short("an element's size", at, 4, rest.len()));
        };
        let size = u32::from_be_bytes(*size) as usize;
        let Some((element, after)) = after.split_at_checked(size) else {
            return Err(too_short("an element", at, size.saturating_add(4), rest.len()));
        };
        if is_bundle(element) {
            check_bundle(element, at + 4, depth + 1)?;
        }
        at += 4 + size;
        rest = after;
    }
    Ok(())
}

/// Calls `visit` for every message of a datagram that passed [`check`], in order; with `None` for a malformed message.
pub(crate) fn walk<'a>(data: &'a [u8], visit: &mut impl FnMut(Option<Message<'a>>)) {
    if !is_bundle(data) {
        return visit(message(data));
    }
    let mut rest = data.get(16..).unwrap_or_default();
    while let Some((size, after)) = rest.split_first_chunk::<4>() {
        let Some((element, after)) = after.split_at_checked(u32::from_be_bytes(*size) as usize) else {
            return;
        };
        walk(element, visit);
        rest = after;
    }
}

/// The address of the first message, if the datagram is OSC and has one.
pub(crate) fn first_address(datagram: &[u8]) -> Option<&[u8]> {
    check(datagram).ok()?;
    let mut first = None;
    walk(datagram, &mut |message| {
        first = first.or(message.map(|m| m.address))
    });
    first
}

/// Appends a string with its padding.
pub(crate) fn put_string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    let padding = 4 - text.len() % 4;
    out.extend_from_slice(&[0; 4][..padding]);
}

/// Begins a bundle with the time tag "immediately".
pub(crate) fn put_bundle(out: &mut Vec<u8>) {
    out.extend_from_slice(BUNDLE);
    out.extend_from_slice(&1u64.to_be_bytes());
}

/// Appends one element, encoded by `write`, preceded by its size.
pub(crate) fn put_element(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let size = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&size.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_end_at_their_padding() {
        assert_eq!(string(b"abc\0rest"), Some((&b"abc"[..], &b"rest"[..])));
        assert_eq!(string(b"abcd\0\0\0\0r"), Some((&b"abcd"[..], &b"r"[..])));
        assert_eq!(string(b"\0\0\0\0"), Some((&b""[..], &b""[..])));
        assert_eq!(string(b"abcd"), None);
        assert_eq!(string(b"ab\0"), None);
    }

    #[test]
    fn messages_may_lack_type_tags_but_not_the_comma() {
        let bare = message(b"/a\0\0").unwrap();
        assert_eq!(
            (bare.address, bare.tags, bare.arguments),
            (&b"/a"[..], &b""[..], &b""[..])
        );
        assert!(message(b"/a\0\0i\0\0\0\0\0\0\x01").is_none());
        assert!(message(b"a\0\0\0").is_none());
        assert!(message(b"").is_none());
    }

    #[test]
    fn nesting_is_bounded() {
        let mut data = b"/a\0\0,\0\0\0".to_vec();
        for depth in 1..=MAX_DEPTH + 1 {
            let mut outer = Vec::new();
            put_bundle(&mut outer);
            put_element(&mut outer, |out| out.extend_from_slice(&data));
            data = outer;
            assert_eq!(check(&data).is_ok(), depth <= MAX_DEPTH, "{depth}");
            if depth <= MAX_DEPTH {
                let mut messages = 0;
                walk(&data, &mut |message| messages += usize::from(message.is_some()));
                assert_eq!(messages, 1);
            }
        }
    }
}
