//! Of several performers of one sender, the one who is followed.

/// So many messages with others alone make one of them the active one.
const AWAY: u32 = 200;

/// Who is followed: the first who comes, another one when that has been away for [`AWAY`] messages of others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Active<T> {
    pub(crate) id: Option<T>,
    others: u32,
}

impl<T: PartialEq> Active<T> {
    /// Takes who is in a message, the active one where it is there: whether they are another one than before; none
    /// where they are not followed.
    pub(crate) fn accept(&mut self, id: T) -> Option<bool> {
        let is_new = self.id.as_ref() != Some(&id);
        if is_new && self.id.is_some() && self.others < AWAY {
            self.others += 1;
            return None;
        }
        self.others = 0;
        self.id = Some(id);
        Some(is_new)
    }
}
