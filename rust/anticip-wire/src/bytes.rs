//! Bounds-checked reading of numbers, and writing of floats.

use crate::WireError;

/// The `N` bytes at offset `at`, or `None` if the data ends before.
#[inline]
pub(crate) fn array<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// The `needed` bytes at offset `at`.
///
/// # Errors
/// [`WireError::Truncated`] if the data ends before; `what` names what was being read.
#[inline]
pub(crate) fn slice<'a>(
    data: &'a [u8],
    at: usize,
    needed: usize,
    what: &'static str,
) -> Result<&'a [u8], WireError> {
    let rest = data.get(at..).unwrap_or_default();
    rest.get(..needed).ok_or(WireError::Truncated {
        what,
        at,
        needed,
        left: rest.len(),
    })
}

/// The `N` little-endian floats at offset `at`, or `None` if the data ends before.
#[inline]
pub(crate) fn f32s_le<const N: usize>(data: &[u8], at: usize) -> Option<[f32; N]> {
    let raw = data.get(at..at.checked_add(4 * N)?)?;
    let mut out = [0.0; N];
    for (value, chunk) in out.iter_mut().zip(raw.as_chunks::<4>().0) {
        *value = f32::from_le_bytes(*chunk);
    }
    Some(out)
}

/// Appends little-endian floats.
pub(crate) fn put_f32s_le(out: &mut Vec<u8>, values: &[f32]) {
    values
        .iter()
        .for_each(|v| out.extend_from_slice(&v.to_le_bytes()));
}

/// Appends big-endian floats.
pub(crate) fn put_f32s_be(out: &mut Vec<u8>, values: &[f32]) {
    values
        .iter()
        .for_each(|v| out.extend_from_slice(&v.to_be_bytes()));
}
