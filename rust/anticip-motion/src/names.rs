//! Side and body part of joint names, whatever naming scheme they follow.

use std::borrow::Cow;

/// Side of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// Body part. Ambiguous ones (`Shoulder`, `Leg`, `Hip`, `Foot`) are resolved by the other names of the skeleton.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Hips,
    Torso,
    Neck,
    Head,
    /// Definitely the clavicle: collar, clavicle, scapula.
    Clavicle,
    /// Clavicle (Mixamo, CMU BVH, VRM, mocopi) or upper arm (Poser, `LeftElbow` families, SMPL).
    Shoulder,
    /// Definitely the upper arm.
    UpperArm,
    LowerArm,
    Hand,
    /// Definitely the upper leg.
    UpperLeg,
    /// Upper leg (`LeftHip`/`LeftKnee`, SMPL), unless the side names a thigh of its own.
    Hip,
    /// Definitely the lower leg.
    LowerLeg,
    /// Lower leg if the side has an upper one, else the upper leg.
    Leg,
    /// Definitely the foot.
    Ankle,
    /// Foot, or the ball of the foot if the side has an ankle (SMPL).
    Foot,
    Toes,
}

/// Side and part of a joint name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meaning {
    pub(crate) side: Option<Side>,
    pub(crate) part: Part,
}

/// Rig prefixes that carry no meaning.
const PREFIXES: [&str; 9] = [
    "mixamorig",
    "valvebipedbip01",
    "valvebiped",
    "bip001",
    "bip01",
    "jbip",
    "def",
    "org",
    "ccbase",
];

/// Words of helper bones, which do not move a part of the body by themselves.
const HELPERS: [&str; 10] = [
    "ik", "twist", "roll", "end", "nub", "site", "pole", "target", "ctrl", "unmapped",
];

/// Words of MikuMikuDance's bones, such as `左ひじ`; a word comes before its parts.
const JAPANESE: [(&str, &str); 17] = [
    ("左", "left"),
    ("右", "right"),
    ("捩", " twist "),
    ("ＩＫ", " ik "),
    ("足首", "ankle"),
    ("手首", "wrist"),
    ("つま先", "toe"),
    ("先", " end "),
    ("頭", "head"),
    ("首", "neck"),
    ("肩", "shoulder"),
    ("腕", "arm"),
    ("ひじ", "elbow"),
    ("肘", "elbow"),
    ("足", "leg"),
    ("ひざ", "knee"),
    ("膝", "knee"),
];

/// Words in the names of fingers, of the bones between them and the wrist, and of a hand's end.
const FINGERS: [&str; 12] = [
    "finger", "index", "mid", "ring", "pinky", "pinkie", "little", "carpal", "palm", "end", "nub", "site",
];

/// Part of a name without a side; `vl`, `vt`, `vc` and `skullbase` are H-Anim's (ISO/IEC 19774), which numbers
/// vertebrae.
fn central_part(key: &str) -> Option<Part> {
    Some(match key {
        "hips" | "hip" | "pelvis" | "pelvisroot" => Part::Hips,
        "spine" | "chest" | "upperchest" | "lowerchest" | "torso" | "thorax" | "lowerback" | "upperback"
        | "back" | "ab" | "abdomen" | "abdomenlower" | "abdomenupper" | "lowerabdomen" | "upperabdomen"
        | "chestlower" | "chestupper" | "waist" | "spinelower" | "spineupper" | "spinemid" | "lowerspine"
        | "upperspine" | "spinenavel" | "spinechest" | "spineshoulder" | "shouldercenter" | "ribcage"
        | "vl" | "vt" => Part::Torso,
        "neck" | "lowerneck" | "upperneck" | "necklower" | "neckupper" | "necktwist" | "vc" => Part::Neck,
        "head" | "skullbase" => Part::Head,
        _ => return None,
    })
}

/// Part of a name whose side was removed.
fn sided_part(key: &str) -> Option<Part> {
    Some(match key {
        "collar" | "clavicle" | "scapula" | "collarbone" | "armcollarbone" | "sternoclavicular"
        | "acromioclavicular" => Part::Clavicle,
        "shoulder" => Part::Shoulder,
        "arm" | "uarm" | "uparm" | "upperarm" | "humerus" | "shldr" | "shldrbend" | "shldrtwist"
        | "armupper" | "armstretch" => Part::UpperArm,
        "farm" | "larm" | "forearm" | "lowerarm" | "lowarm" | "elbow" | "radius" | "forearmbend"
        | "forearmtwist" | "armlower" | "forearmstretch" => Part::LowerArm,
        "hand" | "wrist" | "handwrist" | "fingerbase" | "palm" | "fist" | "armpalm" => Part::Hand,
        "uleg" | "upleg" | "upperleg" | "thigh" | "femur" | "thighbend" | "thightwist" | "legupper"
        | "thighstretch" => Part::UpperLeg,
        "hip" => Part::Hip,
        "shin" | "shank" | "knee" | "tibia" | "calf" | "lowerleg" | "lowleg" | "lleg" | "leglower"
        | "legstretch" => Part::LowerLeg,
        "leg" => Part::Leg,
        "ankle" | "footankle" | "legankle" => Part::Ankle,
        "foot" => Part::Foot,
        "toe" | "toes" | "toebase" | "ball" | "football" | "forefoot" | "metatarsal" | "legdigit" => {
            Part::Toes
        }
        _ => return None,
    })
}

fn without_digits(key: &str) -> &str {
    key.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// Side and part that `name` means, or `None` if the canonical body has no such joint (fingers, eyes, twist bones).
pub(crate) fn meaning(name: &str) -> Option<Meaning> {
    // Namespaces ("mixamorig:Hips", "rig|Hips") do not matter.
    let local = name.rsplit([':', '|']).next().unwrap_or(name);
    // Nor does an abbreviation in brackets: "NPC L Thigh [LThg]".
    let local = match local.find('[') {
        Some(at) if at > 0 => &local[..at],
        _ => local,
    };
    // mGear's limbs end in the hand and the ankle.
    let local = in_english(match local.strip_suffix("0_end_jnt") {
        Some("arm_L") => "l_hand",
        Some("arm_R") => "r_hand",
        Some("leg_L") => "l_ankle",
        Some("leg_R") => "r_ankle",
        _ => local,
    });
    // Separators are dropped: "thigh_l", "upper_arm.L", "Bip01 L Thigh".
    let words: Vec<String> = local
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|w| !w.is_empty())
        .map(|w| match w.to_ascii_lowercase().as_str() {
            "lf" | "lt" => "left".to_owned(),
            "rt" => "right".to_owned(),
            // mGear numbers its components: "leg_L0_thigh_jnt".
            "l0" => "l".to_owned(),
            "r0" => "r".to_owned(),
            word => word.to_owned(),
        })
        .filter(|w| w != "c0")
        .collect();
    if words.iter().any(|w| HELPERS.contains(&w.as_str())) {
        return None;
    }
    // Suffixes that only mean "joint" or "in the middle": "hips_JNT", "Neck_M", "head.x".
    let words = match words.split_last() {
        Some((last, rest))
            if !rest.is_empty() && matches!(last.as_str(), "jnt" | "joint" | "m" | "x" | "c") =>
        {
            rest
        }
        _ => &words[..],
    };
    let key: String = words.concat();
    if let Some(found) = lookup(&key) {
        return Some(found);
    }
    for prefix in PREFIXES {
        if let Some(rest) = key.strip_prefix(prefix)
            && let Some(found) = lookup(rest).or_else(|| rest.strip_prefix('c').and_then(lookup))
        {
            return Some(found);
        }
    }
    // A prefix of the rig's own, separated: "Actor1_Hips", "m_avg_L_Hip" ...
    let after_prefix =
        |words: &[String]| (1..words.len().min(4)).find_map(|skip| lookup(&words[skip..].concat()));
    // ... or in camel case: "simHips", "CharacterLeftUpLeg".
    after_prefix(words).or_else(|| after_prefix(&camel_case_words(&local)))
}

/// `name` with its Japanese words translated.
fn in_english(name: &str) -> Cow<'_, str> {
    if name.is_ascii() {
        return name.into();
    }
    let translated = |name: String, (word, english): &(&str, &str)| name.replace(word, english);
    JAPANESE.iter().fold(name.to_owned(), translated).into()
}

/// Removes the word for the hand from a joint's name; also returns that word's rank from the wrist outwards.
pub(crate) fn hand_word(name: &str) -> (String, usize) {
    let mut name = name.to_ascii_lowercase();
    for (rank, word) in ["wrist", "hand", "fingerbase"].iter().enumerate().rev() {
        if let Some(at) = name.rfind(word) {
            name.replace_range(at..at + word.len(), "");
            return (name, rank);
        }
    }
    (name, 0)
}

/// Whether a child of a hand shows the hand's direction: a finger (not the thumb), or the hand's own end.
pub(crate) fn is_finger(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    !name.contains("thumb") && FINGERS.iter().any(|word| name.contains(word))
}

/// Words of a camel-case name, in lower case.
fn camel_case_words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut lower = false;
    for c in name.chars().filter(char::is_ascii_alphanumeric) {
        if words.is_empty() || (lower && c.is_ascii_uppercase()) {
            words.push(String::new());
        }
        lower = !c.is_ascii_uppercase();
        if let Some(word) = words.last_mut() {
            word.push(c.to_ascii_lowercase());
        }
    }
    words
}

fn lookup(key: &str) -> Option<Meaning> {
    let without_side = |part| Meaning { side: None, part };
    if let Some(part) = central_part(key).or_else(|| central_part(without_digits(key))) {
        return Some(without_side(part));
    }
    // Xsens names vertebrae.
    if matches!(key, "l5" | "l3" | "t12" | "t8") {
        return Some(without_side(Part::Torso));
    }
    let sides = [
        ("left", Side::Left),
        ("right", Side::Right),
        ("l", Side::Left),
        ("r", Side::Right),
    ];
    sides.into_iter().find_map(|(word, side)| {
        let part = |rest: &str| sided_part(rest).or_else(|| sided_part(without_digits(rest)));
        let front = key.strip_prefix(word).and_then(part);
        let back = || without_digits(key).strip_suffix(word).and_then(part);
        front.or_else(back).map(|part| Meaning {
            side: Some(side),
            part,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_family_are_understood() {
        let left = Some(Side::Left);
        let right = Some(Side::Right);
        for (name, side, part) in [
            ("mixamorig:LeftUpLeg", left, Part::UpperLeg),
            ("lowerback", None, Part::Torso),
            ("torso_7", None, Part::Torso),
            ("neck_2", None, Part::Neck),
            ("l_up_arm", left, Part::UpperArm),
            ("r_low_leg", right, Part::LowerLeg),
            ("r_larm", right, Part::LowerArm),
            ("l_larm", left, Part::LowerArm),
            ("larm", left, Part::UpperArm),
            ("l_uleg", left, Part::UpperLeg),
            ("r_lleg", right, Part::LowerLeg),
            ("l_shank", left, Part::LowerLeg),
            ("rShldr", right, Part::UpperArm),
            ("rForeArm", right, Part::LowerArm),
            ("lradius", left, Part::LowerArm),
            ("rtoes", right, Part::Toes),
            ("LeftToeBase", left, Part::Toes),
            ("RightForeFoot", right, Part::Toes),
            ("LeftFingerBase", left, Part::Hand),
            ("upperarm_l", left, Part::UpperArm),
            ("upper_arm.R", right, Part::UpperArm),
            ("Bip01 L Clavicle", left, Part::Clavicle),
            ("Bip01 Pelvis", None, Part::Hips),
            ("hips_JNT", None, Part::Hips),
            ("l_upleg_JNT", left, Part::UpperLeg),
            ("J_Bip_C_UpperChest", None, Part::Torso),
            ("J_Bip_R_LowerLeg", right, Part::LowerLeg),
            ("spine_03", None, Part::Torso),
            ("Spine2", None, Part::Torso),
            ("left_hip", left, Part::Hip),
            ("hip", None, Part::Hips),
            ("Right Upper Arm", right, Part::UpperArm),
            ("m_avg_L_Knee", left, Part::LowerLeg),
            ("lShldrBend", left, Part::UpperArm),
            ("ball_r", right, Part::Toes),
            ("T8", None, Part::Torso),
            ("Dancer_Ab", None, Part::Torso),
            ("LUArm", left, Part::UpperArm),
            ("Dancer_RFArm", right, Part::LowerArm),
            ("RShin", right, Part::LowerLeg),
            ("simHips", None, Part::Hips),
            ("Head_M", None, Part::Head),
            ("neck.x", None, Part::Neck),
            ("CC_Base_NeckTwist02", None, Part::Neck),
            ("simLeftForeArm", left, Part::LowerArm),
            ("CharacterRightUpLeg", right, Part::UpperLeg),
            ("SpineShoulder", None, Part::Torso),
            ("Shoulder_Center", None, Part::Torso),
            ("SPINE_NAVEL", None, Part::Torso),
            ("arm_stretch.l", left, Part::UpperArm),
            ("forearm_stretch.r", right, Part::LowerArm),
            ("thigh_stretch.l", left, Part::UpperLeg),
            ("leg_stretch.r", right, Part::LowerLeg),
            ("FullBody_LeftHandWrist", left, Part::Hand),
            ("FullBody_LeftFootAnkle", left, Part::Ankle),
            ("FullBody_RightFootBall", right, Part::Toes),
            ("Lf_Arm", left, Part::UpperArm),
            ("LFArm", left, Part::LowerArm),
            ("RT_Elbow", right, Part::LowerArm),
            ("thigh_LT", left, Part::UpperLeg),
            ("左腕", left, Part::UpperArm),
            ("右ひじ", right, Part::LowerArm),
            ("左手首", left, Part::Hand),
            ("足.L", left, Part::Leg),
            ("左足首", left, Part::Ankle),
            ("首", None, Part::Neck),
            ("NPC L Thigh [LThg]", left, Part::UpperLeg),
            ("NPC Pelvis [Pelv]", None, Part::Hips),
            ("[Hips]", None, Part::Hips),
            ("leg_L0_thigh_jnt", left, Part::UpperLeg),
            ("spine_C0_01_jnt", None, Part::Torso),
            ("neck_C0_head_jnt", None, Part::Head),
            ("arm_R0_end_jnt", right, Part::Hand),
            ("leg_L0_end_jnt", left, Part::Ankle),
            ("CATRigLLegAnkle", left, Part::Ankle),
            ("CATRigRArmPalm", right, Part::Hand),
            ("CATRigRibcage", None, Part::Torso),
            ("CATRigRLegDigit11", right, Part::Toes),
            ("Fist.L", left, Part::Hand),
            ("vl5", None, Part::Torso),
            ("vc4", None, Part::Neck),
            ("skullbase", None, Part::Head),
            ("r_sternoclavicular", right, Part::Clavicle),
            ("l_metatarsal", left, Part::Toes),
        ] {
            assert_eq!(meaning(name), Some(Meaning { side, part }), "{name}");
        }
    }

    #[test]
    fn what_the_body_lacks_means_nothing() {
        for name in [
            "LHipJoint",
            "LeftHipJoint",
            "ik_foot_l",
            "lthumb",
            "LeftHandIndex1",
            "HeadTop_End",
            "LeftEye",
            "Jaw",
            "lfingers",
            "rButtock",
            "",
            "骨",
            "upperarm_twist_01_l",
            "LeftUpLegRoll",
            "LeftInHandIndex",
            "SceneRoot",
            "root",
            "左腕捩",
            "左足ＩＫ",
            "左足D",
            "左肩C",
            "頭先",
            "Spine2 (unmapped)",
        ] {
            assert_eq!(meaning(name), None, "{name}");
        }
    }
}
