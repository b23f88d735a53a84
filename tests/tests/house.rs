//! The house as its own code draws it: a room is a folder or a file with all that is in it, an arrow goes from a room to a
//! room beside it that it names. Arrows make no circles.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// The path of a module from its crate's root.
type Module = Vec<String>;

/// The modules of a crate and what each of them names.
#[derive(Default)]
struct House {
    names: BTreeMap<Module, BTreeSet<Module>>,
}

/// Collects the paths that a module names, from the crate's root.
struct Names<'h> {
    here: &'h Module,
    found: BTreeSet<Module>,
}

impl Names<'_> {
    fn path(&mut self, segments: &[String]) {
        let mut base: Module = match segments.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("self" | "super") => self.here.clone(),
            // A module may be named by its child's name alone.
            Some(_) => {
                self.found.insert(self.here.iter().chain(segments).cloned().collect());
                return;
            }
            None => return,
        };
        for segment in segments {
            match segment.as_str() {
                "crate" | "self" => {}
                "super" => drop(base.pop()),
                name => base.push(name.to_owned()),
            }
        }
        self.found.insert(base);
    }

    fn tree(&mut self, before: &[String], tree: &syn::UseTree) {
        let with = |name: &syn::Ident| before.iter().cloned().chain([name.to_string()]).collect::<Vec<_>>();
        match tree {
            syn::UseTree::Path(path) => self.tree(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.path(&with(&name.ident)),
            syn::UseTree::Rename(name) => self.path(&with(&name.ident)),
            syn::UseTree::Glob(_) => self.path(before),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.tree(before, tree)),
        }
    }
}

/// Whether an item is there in tests only.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    let cfg = |a: &&syn::Attribute| a.path().is_ident("cfg");
    attributes.iter().filter(cfg).any(|a| a.parse_args::<syn::Path>().is_ok_and(|p| p.is_ident("test")))
}

impl<'a> Visit<'a> for Names<'_> {
    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        if !is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if segments.len() > 1 {
            self.path(&segments);
        }
        visit::visit_path(self, path);
    }
}

impl House {
    /// Reads a module and those that it declares, tests aside.
    fn read(&mut self, file: &Path, here: Module) {
        let text = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let mut names = Names { here: &here, found: BTreeSet::new() };
        names.visit_file(&parsed);
        let found = names.found;
        // Children of `a/mod.rs` lie in `a`, those of `a.rs` in `a` too.
        let stem = file.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
        let folder = file.parent().expect("a folder");
        let folder: PathBuf = if matches!(stem, "mod" | "lib") { folder.to_owned() } else { folder.join(stem) };
        for item in &parsed.items {
            let syn::Item::Mod(module) = item else { continue };
            if module.content.is_some() || is_test(&module.attrs) {
                continue;
            }
            let name = module.ident.to_string();
            let inside = [folder.join(format!("{name}.rs")), folder.join(&name).join("mod.rs")];
            let child = inside.iter().find(|f| f.exists()).unwrap_or_else(|| panic!("no file of {name} in {folder:?}"));
            self.read(child, here.iter().cloned().chain([name]).collect());
        }
        self.names.insert(here, found);
    }

    /// The arrows between rooms that lie in the same room, by that room.
    fn arrows(&self) -> BTreeMap<Module, BTreeSet<(String, String)>> {
        let mut arrows: BTreeMap<Module, BTreeSet<(String, String)>> = BTreeMap::new();
        for (from, named) in &self.names {
            for path in named {
                // As much of the path as is a module.
                let to = (0..=path.len()).rev().map(|n| &path[..n]).find(|p| self.names.contains_key(*p));
                let Some(to) = to else { continue };
                let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
                if let (Some(a), Some(b)) = (from.get(common), to.get(common)) {
                    arrows.entry(to[..common].to_vec()).or_default().insert((a.clone(), b.clone()));
                }
            }
        }
        arrows
    }
}

/// The rooms that a room's arrows lead to, by one or by many.
fn reached<'a>(arrows: &'a BTreeSet<(String, String)>, from: &'a String) -> BTreeSet<&'a String> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(room) = open.pop() {
        let next = arrows.iter().filter(|(a, _)| a == room).map(|(_, b)| b);
        open.extend(next.filter(|b| seen.insert(*b)));
    }
    seen
}

/// The circles of a graph: rooms each of which reaches each.
fn circles(arrows: &BTreeSet<(String, String)>) -> Vec<Vec<String>> {
    let rooms: BTreeSet<&String> = arrows.iter().map(|(a, _)| a).collect();
    let reach: BTreeMap<&String, BTreeSet<&String>> = rooms.iter().map(|&room| (room, reached(arrows, room))).collect();
    let reaches = |a: &String, b: &String| reach.get(a).is_some_and(|reached| reached.contains(b));
    let circle = |room: &String| -> Vec<String> {
        rooms.iter().filter(|b| reaches(room, b) && reaches(b, room)).map(|b| (*b).clone()).collect()
    };
    let all: BTreeSet<Vec<String>> = rooms.iter().map(|room| circle(room)).filter(|c| c.len() > 1).collect();
    all.into_iter().collect()
}

fn house(name: &str) -> House {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src/lib.rs");
    let mut house = House::default();
    house.read(&root, Vec::new());
    house
}

#[test]
fn arrows_between_rooms_make_no_circles() {
    let house = house("compiler");
    assert!(house.names.len() > 200, "{} modules were read", house.names.len());
    let mut found = Vec::new();
    for (room, arrows) in house.arrows() {
        let room = [vec!["compiler".to_owned()], room].concat().join("/");
        found.extend(circles(&arrows).into_iter().map(|circle| (room.clone(), circle)));
    }
    assert!(found.is_empty(), "circles: {found:#?}");
}

#[test]
fn plans_of_rows_know_no_machine() {
    let house = house("compiler");
    let mut count = 0;
    for (module, named) in &house.names {
        if !module.join("/").starts_with("codegen/rows") {
            continue;
        }
        count += 1;
        let foreign = named.iter().find(|path| path.iter().any(|s| s.starts_with("cranelift") || s == "iced_x86"));
        assert_eq!(foreign, None, "{module:?}");
    }
    assert!(count >= 3, "{count} modules of plans");
}

#[test]
fn a_circle_is_found() {
    let arrow = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    let arrows = BTreeSet::from([arrow("a", "b"), arrow("b", "c"), arrow("c", "a"), arrow("c", "d")]);
    assert_eq!(circles(&arrows), [["a", "b", "c"]]);
    assert!(circles(&BTreeSet::from([arrow("a", "b"), arrow("c", "b")])).is_empty());
}
