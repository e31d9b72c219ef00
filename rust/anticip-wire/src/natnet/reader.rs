//! The sections of frames and of model definitions.

use super::body;
use crate::bytes::{array, f32s_le};
use crate::pose::{MAX_JOINTS, SkeletonUpdate};

/// Bytes of a labelled marker; of what ends a frame, without and with sizes.
const MARKER: usize = 26;
const END: [usize; 2] = [46, 54];
/// A newer server may add so much.
const MORE: usize = 16;
/// Nobody has more of anything.
const MOST: usize = 4096;

/// A bone of a frame.
#[derive(Clone, Debug)]
pub(super) struct Bone {
    pub(super) id: i32,
    pub(super) position: [f32; 3],
    pub(super) rotation: [f32; 4],
    pub(super) tracked: bool,
}

/// What of a frame is a body.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) number: u32,
    pub(super) seconds: Option<f64>,
    pub(super) rigid: Vec<Bone>,
    /// By their ids.
    pub(super) skeletons: Vec<(i32, Vec<Bone>)>,
}

/// What model definitions tell.
#[derive(Clone, Debug, Default)]
pub(super) struct Definitions {
    pub(super) skeletons: Vec<Definition>,
    /// Rigid bodies: their ids and names.
    pub(super) rigid: Vec<(i32, String)>,
}

/// A skeleton's definition.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    pub(super) id: i32,
    /// The bones' own ids, in the body's order.
    pub(super) bones: Vec<i32>,
    pub(super) body: SkeletonUpdate,
}

struct Reader<'a> {
    data: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn int(&mut self) -> Option<i32> {
        let value = array::<4>(self.data, self.at).map(i32::from_le_bytes)?;
        self.at += 4;
        Some(value)
    }

    fn count(&mut self) -> Option<usize> {
        usize::try_from(self.int()?).ok().filter(|n| *n <= MOST)
    }

    fn floats<const N: usize>(&mut self) -> Option<[f32; N]> {
        let found = f32s_le::<N>(self.data, self.at)?;
        self.at += 4 * N;
        Some(found)
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.at = self.at.checked_add(bytes).filter(|at| *at <= self.data.len())?;
        Some(())
    }

    fn text(&mut self) -> Option<String> {
        let rest = self.data.get(self.at..)?;
        let end = rest.iter().take(256).position(|byte| *byte == 0)?;
        self.at += end + 1;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    }

    fn bone(&mut self) -> Option<Bone> {
        let id = self.int()?;
        let [x, y, z, qx, qy, qz, qw, _] = self.floats::<8>()?;
        let [flags, _] = array::<2>(self.data, self.at)?;
        self.skip(2)?;
        Some(Bone {
            id,
            position: [x, y, z],
            rotation: [qw, qx, qy, qz],
            tracked: flags & 1 != 0,
        })
    }

    /// A section: how many things it has, and where it ends where that is told.
    fn section(&mut self, sized: bool) -> Option<(usize, Option<usize>)> {
        let count = self.count()?;
        if !sized {
            return Some((count, None));
        }
        let bytes = usize::try_from(self.int()?).ok()?;
        let end = self.at.checked_add(bytes).filter(|end| *end <= self.data.len())?;
        Some((count, Some(end)))
    }

    fn pass(&mut self, sized: bool, mut one: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        let (count, end) = self.section(sized)?;
        if let Some(end) = end {
            self.at = end;
            return Some(());
        }
        (0..count).try_for_each(|_| one(self))
    }
}

/// A frame whose sections carry their sizes, or do not.
pub(super) fn frame(data: &[u8], sized: bool) -> Option<Frame> {
    let mut r = Reader { data, at: 0 };
    let number = r.int()? as u32;
    r.pass(sized, |r| {
        r.text()?;
        let markers = r.count()?;
        r.skip(12 * markers)
    })?;
    r.pass(sized, |r| r.skip(12))?;
    let (count, end) = r.section(sized)?;
    let rigid: Option<Vec<Bone>> = (0..count).map(|_| r.bone()).collect();
    let rigid = rigid?;
    if end.is_some_and(|end| end != r.at) {
        return None;
    }
    let (count, end) = r.section(sized)?;
    let mut skeletons = Vec::new();
    for _ in 0..count {
        let id = r.int()?;
        let bones = r.count().filter(|n| *n <= MAX_JOINTS)?;
        let bones: Option<Vec<Bone>> = (0..bones).map(|_| r.bone()).collect();
        skeletons.push((id, bones?));
    }
    if end.is_some_and(|end| end != r.at) {
        return None;
    }
    if sized {
        r.pass(true, |_| None)?;
    }
    r.pass(sized, |r| r.skip(MARKER))?;
    for _ in ["force plates", "devices"] {
        r.pass(sized, |r| {
            r.int()?;
            let channels = r.count()?;
            (0..channels).try_for_each(|_| {
                let samples = r.count()?;
                r.skip(4 * samples)
            })
        })?;
    }
    let left = data.len() - r.at;
    let most = END[usize::from(sized)] + if sized { MORE } else { 0 };
    if !(END[usize::from(sized)]..=most).contains(&left) {
        return None;
    }
    let seconds = array::<8>(data, r.at + 8).map(f64::from_le_bytes);
    Some(Frame {
        number,
        rigid,
        seconds: seconds.filter(|s| s.is_finite() && *s >= 0.0),
        skeletons,
    })
}

/// How definitions are laid out: whether they carry their sizes, rigid bodies and bones a rotation (which in T-pose is
/// none), markers names.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    sized: bool,
    turned: bool,
    named: bool,
}

impl Layout {
    /// Those of NatNet 4.2 and later, 4.1, 4.0, 3.
    pub(super) const ALL: [Self; 4] = [
        Self::new(true, true, true),
        Self::new(true, false, true),
        Self::new(false, false, true),
        Self::new(false, false, false),
    ];

    const fn new(sized: bool, turned: bool, named: bool) -> Self {
        Self { sized, turned, named }
    }
}

/// Model definitions of that layout.
pub(super) fn definition(data: &[u8], layout: Layout) -> Option<Definitions> {
    let Layout { sized, turned, named } = layout;
    let mut r = Reader { data, at: 0 };
    let rigid = |r: &mut Reader<'_>| -> Option<(i32, i32, String, [f32; 3])> {
        let name = r.text()?;
        let (id, parent) = (r.int()?, r.int()?);
        let offset = r.floats::<3>()?;
        r.skip(if turned { 16 } else { 0 })?;
        let markers = r.count()?;
        r.skip(16 * markers)?;
        for _ in 0..if named { markers } else { 0 } {
            r.text()?;
        }
        Some((id, parent, name, offset))
    };
    let mut found = Definitions::default();
    for _ in 0..r.count()? {
        let kind = r.int()?;
        let end = if sized {
            let bytes = usize::try_from(r.int()?).ok()?;
            Some(r.at.checked_add(bytes).filter(|end| *end <= data.len())?)
        } else {
            None
        };
        match kind {
            0 if end.is_none() => {
                r.text()?;
                for _ in 0..r.count()? {
                    r.text()?;
                }
            }
            1 => {
                let (id, _, name, _) = rigid(&mut r)?;
                found.rigid.push((id, name));
            }
            2 => {
                r.text()?;
                let id = r.int()?;
                let count = r.count().filter(|n| *n <= MAX_JOINTS)?;
                let bones: Option<Vec<_>> = (0..count).map(|_| rigid(&mut r)).collect();
                let bones = bones?;
                found.skeletons.push(Definition {
                    id,
                    body: body(&bones)?,
                    bones: bones.iter().map(|(id, ..)| *id).collect(),
                });
            }
            3..=6 if end.is_none() => return Some(found),
            0..=6 => {}
            _ => return None,
        }
        if let Some(end) = end {
            // What is read tells by its size whether it was read rightly.
            if matches!(kind, 1 | 2) && r.at != end {
                return None;
            }
            r.at = end;
        }
    }
    // Without sizes nothing else tells whether this was the right way to read it.
    (sized || r.at == data.len()).then_some(found)
}
