//! An OSC bundle that is laid out once and whose numbers are overwritten in place for every frame.

/// Position of one 32-bit float in the bundle, and its source: an index into one of the lists of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Byte offset in the bundle.
    pub at: usize,
    /// Index of the list.
    pub list: usize,
    /// Index into the list.
    pub index: usize,
}

/// A bundle with fixed addresses and varying numbers.
#[derive(Clone, Debug)]
pub struct Bundle {
    bytes: Vec<u8>,
    /// Length of the fixed part; messages appended to one frame follow it.
    fixed_len: usize,
    /// Offset of the frame count, if the bundle has one.
    count_at: Option<usize>,
    places: Vec<Place>,
}

impl Bundle {
    /// Wraps an encoded bundle. `count_at` is the offset of a 32-bit frame count, `places` are those of the floats.
    /// `None` if one of them lies outside the bundle.
    #[must_use]
    pub fn new(bytes: Vec<u8>, count_at: Option<usize>, places: Vec<Place>) -> Option<Self> {
        let fixed_len = bytes.len();
        let mut offsets = places.iter().map(|place| place.at).chain(count_at);
        let fits = offsets.all(|at| at.checked_add(4).is_some_and(|end| end <= fixed_len));
        fits.then_some(Self {
            bytes,
            fixed_len,
            count_at,
            places,
        })
    }

    /// Writes the numbers of a new frame and drops what was appended to the last one. A number missing from its list
    /// keeps its previous value.
    pub fn write(&mut self, count: i32, lists: &[&[f64]]) {
        self.bytes.truncate(self.fixed_len);
        if let Some(at) = self.count_at {
            self.put(at, count.to_be_bytes());
        }
        for n in 0..self.places.len() {
            let Place { at, list, index } = self.places[n];
            if let Some(value) = lists.get(list).and_then(|list| list.get(index)) {
                self.put(at, (*value as f32).to_be_bytes());
            }
        }
    }

    /// Appends encoded bytes, then big-endian floats, to this frame only.
    pub fn add(&mut self, head: &[u8], values: &[f64]) {
        self.bytes.extend_from_slice(head);
        let floats = values.iter().flat_map(|value| (*value as f32).to_be_bytes());
        self.bytes.extend(floats);
    }

    /// The encoded frame.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn put(&mut self, at: usize, value: [u8; 4]) {
        self.bytes[at..at + 4].copy_from_slice(&value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_place_and_additions_last_one_frame() {
        let place = |at, list, index| Place { at, list, index };
        let mut bundle = Bundle::new(vec![9; 16], Some(4), vec![place(8, 0, 1), place(12, 1, 0)]).unwrap();
        bundle.write(-2, &[&[5.0, 1.5], &[0.1]]);
        bundle.add(b"tail", &[2.0]);
        let mut expected = vec![9, 9, 9, 9];
        expected.extend((-2i32).to_be_bytes());
        expected.extend(1.5f32.to_be_bytes());
        expected.extend(0.1f32.to_be_bytes());
        assert_eq!(bundle.bytes()[..16], expected);
        assert_eq!(
            bundle.bytes()[16..],
            [b"tail".as_slice(), &2.0f32.to_be_bytes()].concat()
        );
        bundle.write(3, &[&[5.0]]);
        assert_eq!(bundle.bytes()[8..], expected[8..]);
    }

    #[test]
    fn a_number_outside_the_bundle_is_refused() {
        let place = |at| Place {
            at,
            list: 0,
            index: 0,
        };
        assert!(Bundle::new(vec![0; 8], None, vec![place(usize::MAX)]).is_none());
        assert!(Bundle::new(vec![0; 8], Some(5), Vec::new()).is_none());
        assert!(Bundle::new(vec![0; 8], Some(4), vec![place(0)]).is_some());
    }
}
