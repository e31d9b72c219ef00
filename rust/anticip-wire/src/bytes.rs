//! Bounds-checked reading of numbers.

/// The `N` bytes at offset `at`, or `None` if the data ends before.
#[inline]
pub(crate) fn array<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..at.checked_add(N)?)?.try_into().ok()
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
