//! A zero-copy msgpack reader that checks every length and bounds nesting.

use rmp::Marker;

use crate::WireError;
use crate::bytes::{array, slice};

/// Levels of nesting that [`Reader::skip`] follows: the skipped value itself and 15 within it.
const MAX_DEPTH: usize = 16;

/// One value. Arrays and maps are only their length; the items follow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Uint(u64),
    Int(i64),
    Float(f64),
    Str(&'a [u8]),
    Bin(&'a [u8]),
    Array(usize),
    Map(usize),
    /// Nil, a boolean or an extension type.
    Other,
}

/// A cursor over a datagram.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0 }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn seek(&mut self, at: usize) {
        self.at = at;
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let bytes = slice(self.data, self.at, count, "a value")?;
        self.at += count;
        Ok(bytes)
    }

    fn raw<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        Ok(array(self.take(N)?, 0).unwrap_or([0; N]))
    }

    fn len8(&mut self) -> Result<usize, WireError> {
        Ok(self.raw::<1>()?[0].into())
    }

    fn len16(&mut self) -> Result<usize, WireError> {
        Ok(u16::from_be_bytes(self.raw()?).into())
    }

    fn len32(&mut self) -> Result<usize, WireError> {
        Ok(u32::from_be_bytes(self.raw()?) as usize)
    }

    fn ext(&mut self, length: usize) -> Result<Value<'a>, WireError> {
        self.take(length.saturating_add(1))?;
        Ok(Value::Other)
    }

    /// Reads one value; of an array or map only its length.
    pub(crate) fn value(&mut self) -> Result<Value<'a>, WireError> {
        let [marker] = self.raw()?;
        let uint = |bytes: u64| Ok(Value::Uint(bytes));
        let int = |v: i64| Ok(u64::try_from(v).map_or(Value::Int(v), Value::Uint));
        match Marker::from_u8(marker) {
            Marker::Null | Marker::True | Marker::False => Ok(Value::Other),
            Marker::FixPos(v) => uint(v.into()),
            Marker::FixNeg(v) => int(v.into()),
            Marker::U8 => uint(self.raw::<1>()?[0].into()),
            Marker::U16 => uint(u16::from_be_bytes(self.raw()?).into()),
            Marker::U32 => uint(u32::from_be_bytes(self.raw()?).into()),
            Marker::U64 => uint(u64::from_be_bytes(self.raw()?)),
            Marker::I8 => int(i8::from_be_bytes(self.raw()?).into()),
            Marker::I16 => int(i16::from_be_bytes(self.raw()?).into()),
            Marker::I32 => int(i32::from_be_bytes(self.raw()?).into()),
            Marker::I64 => int(i64::from_be_bytes(self.raw()?)),
            Marker::F32 => Ok(Value::Float(f32::from_be_bytes(self.raw()?).into())),
            Marker::F64 => Ok(Value::Float(f64::from_be_bytes(self.raw()?))),
            Marker::FixStr(length) => Ok(Value::Str(self.take(length.into())?)),
            Marker::Str8 => self.len8().and_then(|n| self.take(n)).map(Value::Str),
            Marker::Str16 => self.len16().and_then(|n| self.take(n)).map(Value::Str),
            Marker::Str32 => self.len32().and_then(|n| self.take(n)).map(Value::Str),
            Marker::Bin8 => self.len8().and_then(|n| self.take(n)).map(Value::Bin),
            Marker::Bin16 => self.len16().and_then(|n| self.take(n)).map(Value::Bin),
            Marker::Bin32 => self.len32().and_then(|n| self.take(n)).map(Value::Bin),
            Marker::FixArray(length) => Ok(Value::Array(length.into())),
            Marker::Array16 => self.len16().map(Value::Array),
            Marker::Array32 => self.len32().map(Value::Array),
            Marker::FixMap(length) => Ok(Value::Map(length.into())),
            Marker::Map16 => self.len16().map(Value::Map),
            Marker::Map32 => self.len32().map(Value::Map),
            Marker::FixExt1 => self.ext(1),
            Marker::FixExt2 => self.ext(2),
            Marker::FixExt4 => self.ext(4),
            Marker::FixExt8 => self.ext(8),
            Marker::FixExt16 => self.ext(16),
            Marker::Ext8 => self.len8().and_then(|n| self.ext(n)),
            Marker::Ext16 => self.len16().and_then(|n| self.ext(n)),
            Marker::Ext32 => self.len32().and_then(|n| self.ext(n)),
            Marker::Reserved => Err(WireError::malformed(self.at - 1, "0xc1 is not valid msgpack")),
        }
    }

    /// Skips one value with all its items.
    pub(crate) fn skip(&mut self) -> Result<(), WireError> {
        // Values left at each level. Each takes at least a byte, so a length beyond the datagram ends at its end.
        let mut left = [0usize; MAX_DEPTH];
        let mut depth = 0;
        left[0] = 1;
        loop {
            if left[depth] == 0 {
                if depth == 0 {
                    return Ok(());
                }
                depth -= 1;
                continue;
            }
            left[depth] -= 1;
            let at = self.at;
            let items = match self.value()? {
                Value::Array(items) => items,
                Value::Map(entries) => entries.saturating_mul(2),
                _ => continue,
            };
            depth += 1;
            *left
                .get_mut(depth)
                .ok_or(WireError::malformed(at, "nested deeper than 15"))? = items;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_told_apart_by_sign_alone() {
        for (bytes, value) in [
            (&[0x05][..], Value::Uint(5)),
            (&[0xff], Value::Int(-1)),
            (&[0xd0, 5], Value::Uint(5)),
            (&[0xd1, 0xff, 0xfe], Value::Int(-2)),
            (
                &[0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
                Value::Uint(u64::MAX),
            ),
        ] {
            assert_eq!(Reader::new(bytes).value(), Ok(value));
        }
    }

    #[test]
    fn skipping_passes_over_everything_and_no_further() {
        // {"a": [1, {nil: bin(2)}], 2.5: ext(4)} then 7.
        let bytes = b"\x82\xa1a\x92\x01\x81\xc0\xc4\x02zz\xcb\x40\x04\0\0\0\0\0\0\xd6\x01abcd\x07";
        let mut reader = Reader::new(bytes);
        reader.skip().unwrap();
        assert_eq!(reader.value(), Ok(Value::Uint(7)));
        for end in 0..bytes.len() - 1 {
            assert!(matches!(
                Reader::new(&bytes[..end]).skip(),
                Err(WireError::Truncated { .. })
            ));
        }
    }

    #[test]
    fn huge_lengths_and_deep_nesting_end_soon() {
        assert!(Reader::new(&[0xdd, 0xff, 0xff, 0xff, 0xff, 0x01]).skip().is_err());
        assert!(Reader::new(&[0xdf, 0xff, 0xff, 0xff, 0xff]).skip().is_err());
        assert!(matches!(
            Reader::new(&[0x91; 100]).skip(),
            Err(WireError::Malformed { .. })
        ));
        assert!(matches!(
            Reader::new(&[0xc1]).skip(),
            Err(WireError::Malformed { .. })
        ));
    }
}
