//! An OSC bundle that is laid out once and has its numbers written in place for every frame.

/// Where one 32-bit float of the bundle stands, and which number it is: of which list, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Bytes from the beginning.
    pub at: usize,
    /// Which list.
    pub list: usize,
    /// Which of its numbers.
    pub index: usize,
}

/// A bundle whose numbers change and whose addresses stay.
#[derive(Clone, Debug)]
pub struct Bundle {
    bytes: Vec<u8>,
    /// How many bytes are laid out; what is added to a frame comes behind.
    laid_out: usize,
    count_at: Option<usize>,
    places: Vec<Place>,
}

impl Bundle {
    /// A bundle as it is laid out, with the place of a 32-bit integer, if it has one, and those of its floats. `None`
    /// where one of them does not lie within it.
    #[must_use]
    pub fn new(bytes: Vec<u8>, count_at: Option<usize>, places: Vec<Place>) -> Option<Self> {
        let laid_out = bytes.len();
        let mut all = places.iter().map(|place| place.at).chain(count_at);
        let fits = all.all(|at| at.checked_add(4).is_some_and(|end| end <= laid_out));
        fits.then_some(Self {
            bytes,
            laid_out,
            count_at,
            places,
        })
    }

    /// Writes a frame's numbers; one that its list does not have stays as it was.
    pub fn write(&mut self, count: i32, lists: &[&[f64]]) {
        self.bytes.truncate(self.laid_out);
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

    /// Adds bytes to this frame, and floats behind them.
    pub fn add(&mut self, head: &[u8], values: &[f64]) {
        self.bytes.extend_from_slice(head);
        let floats = values.iter().flat_map(|value| (*value as f32).to_be_bytes());
        self.bytes.extend(floats);
    }

    /// The frame so far.
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
    fn numbers_are_written_where_they_stand_and_what_is_added_lasts_for_a_frame() {
        let place = |at, list, index| Place { at, list, index };
        let mut bundle = Bundle::new(vec![9; 16], Some(4), vec![place(8, 0, 1), place(12, 1, 0)]).unwrap();
        bundle.write(-2, &[&[5.0, 1.5], &[0.1]]);
        bundle.add(b"tail", &[2.0]);
        let mut wanted = vec![9, 9, 9, 9];
        wanted.extend((-2i32).to_be_bytes());
        wanted.extend(1.5f32.to_be_bytes());
        wanted.extend(0.1f32.to_be_bytes());
        assert_eq!(bundle.bytes()[..16], wanted);
        assert_eq!(
            bundle.bytes()[16..],
            [b"tail".as_slice(), &2.0f32.to_be_bytes()].concat()
        );
        bundle.write(3, &[&[5.0]]);
        assert_eq!(bundle.bytes()[8..], wanted[8..]);
    }

    #[test]
    fn a_number_that_does_not_lie_within_is_refused() {
        let place = Place {
            at: usize::MAX,
            list: 0,
            index: 0,
        };
        assert!(Bundle::new(vec![0; 8], None, vec![place]).is_none());
        assert!(Bundle::new(vec![0; 8], Some(5), Vec::new()).is_none());
        assert!(Bundle::new(vec![0; 8], Some(4), vec![Place { at: 0, ..place }]).is_some());
    }
}
