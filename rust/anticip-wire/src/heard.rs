//! Of several performers of one sender, who is heard.

/// So many messages with others alone make one of them heard.
const AWAY: u32 = 200;

/// Who is heard: the first who comes, another one when that has been away for [`AWAY`] messages of others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard<T> {
    pub(crate) who: Option<T>,
    others: u32,
}

impl<T: PartialEq> Heard<T> {
    /// Hears of who is in a message, of the one that is heard where it is there: whether they are another one than
    /// before; none where they are not heard.
    pub(crate) fn hears(&mut self, who: T) -> Option<bool> {
        let is_new = self.who.as_ref() != Some(&who);
        if is_new && self.who.is_some() && self.others < AWAY {
            self.others += 1;
            return None;
        }
        self.others = 0;
        self.who = Some(who);
        Some(is_new)
    }
}
