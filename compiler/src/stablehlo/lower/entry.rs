//! The entry function, and what the module and its arguments say of a whole program.

use super::body::Body;
use super::{Dim, Lowering, agrees_with, parameter_name};
use crate::error::{Error, Result, Site};
use crate::hlo::{Alias, AliasKind};
use crate::stablehlo::ir::{Attribute, Dictionary, Function, Program, Type};
use crate::stablehlo::{Argument, ReadOptions};
use brolga_runtime::Shape;
use brolga_runtime::abi::OpenDimension;

impl<'p> Lowering<'p> {
    /// Converts the entry function: `main`, or the only public one.
    pub fn entry(&mut self, options: &ReadOptions) -> Result<()> {
        let function = entry_function(self.program)?;
        let site =
            || Site { instruction: Some(format!("func.func @{}", function.name)), location: function.at, length: 0 };
        let partitions = self.count("mhlo.num_partitions", &site)?;
        self.module.config.num_partitions = partitions.filter(|&n| n != 1);
        self.module.config.replica_count = self.count("mhlo.num_replicas", &site)?.filter(|&n| n != 1);
        let arguments = function.argument_attributes.iter().chain(&function.result_attributes);
        for attributes in arguments {
            check_argument(attributes, partitions.unwrap_or(1), &site)?;
        }
        self.enter_call(function, &site)?;
        let region = self.body_of(function, &site)?;
        let shapes = self.argument_shapes(function, options, &site)?;
        let mut body = Body::new(self, function);
        body.graph.at = function.at;
        body.graph.label = format!("func.func @{}", function.name);
        for (k, (&argument, shape)) in region.arguments.iter().zip(shapes).enumerate() {
            let name = parameter_name(body.lowering.program, function, k);
            let id = body.parameter(k, shape, &name)?;
            body.frame.values.insert(argument, id);
        }
        let results = body.operations(&region.body)?;
        let count = results.len();
        let root = body.one_of(results)?;
        let graph = body.graph;
        let id = self.finish(graph, &function.name, root, function.at);
        self.calls.pop();
        self.module.entry = id;
        self.aliases(function, count, &site)
    }

    fn count(&self, name: &str, site: &dyn Fn() -> Site) -> Result<Option<i64>> {
        match self.program.attributes.get(name).map(|a| (a, a.to_int())) {
            None => Ok(None),
            Some((_, Some(n))) if n >= 1 => Ok(Some(n)),
            Some(_) => {
                let message = format!("expected a count of at least 1 as {name}");
                Err(Error::Invalid { site: site(), constraint: "module.count", message })
            }
        }
    }

    /// The shapes of the arguments, open sizes from what the caller gives.
    fn argument_shapes(
        &self,
        function: &'p Function,
        options: &ReadOptions,
        site: &dyn Fn() -> Site,
    ) -> Result<Vec<Shape>> {
        let names: Vec<String> =
            (0..function.arguments.len()).map(|k| parameter_name(self.program, function, k)).collect();
        let invalid = |message: String| Error::Invalid { site: site(), constraint: "argument.shape", message };
        let mut given: Vec<Option<&Shape>> = vec![None; names.len()];
        for (argument, shape) in &options.shapes {
            let slot = match argument {
                Argument::Number(n) => given.get_mut(*n),
                Argument::Name(name) => names.iter().position(|n| n == name).and_then(|k| given.get_mut(k)),
            };
            match slot {
                Some(slot) if slot.is_some() => {
                    return Err(invalid(format!("expected one shape for each argument, found two for {argument}")));
                }
                Some(slot) => *slot = Some(shape),
                None => {
                    let what = match argument {
                        Argument::Number(n) => n.to_string(),
                        Argument::Name(name) => format!("'{name}'"),
                    };
                    let message = format!("expected an argument of the program ({}), found {what}", names.join(", "));
                    return Err(invalid(message));
                }
            }
        }
        let mut out = Vec::new();
        for (k, ((ty, name), given)) in function.arguments.iter().zip(&names).zip(given).enumerate() {
            let known = |argument: &Argument| match argument {
                Argument::Number(n) => *n == k,
                Argument::Name(n) => n == name,
            };
            let sized = match (options.sizes.iter().find(|(argument, _)| known(argument)), ty) {
                (Some((_, dims)), Type::Tensor(t)) if is_open(ty) => {
                    super::element_type(&t.element).ok().map(|e| Shape::array(e, dims.clone()))
                }
                _ => None,
            };
            let shape = match (super::shape_of(ty), given.or(sized.as_ref())) {
                (_, Some(shape)) if agrees_with(ty, shape) => shape.without_layout(),
                (_, Some(shape)) => {
                    return Err(invalid(format!("expected a shape of {ty} for argument '{name}', found {shape:#}")));
                }
                (Ok(shape), None) => shape,
                (Err(_), None) if is_open(ty) => {
                    return Err(invalid(format!("expected a shape for argument '{name}', whose sizes are open: {ty}")));
                }
                (Err(feature), None) => return Err(Error::Unsupported { site: site(), feature }),
            };
            out.push(shape);
        }
        Ok(out)
    }

    /// `tf.aliasing_output`: which result may take an argument's memory.
    fn aliases(&mut self, function: &Function, results: usize, site: &dyn Fn() -> Site) -> Result<()> {
        for (parameter, attributes) in function.argument_attributes.iter().enumerate() {
            let Some(attribute) = attributes.get("tf.aliasing_output") else { continue };
            let output = attribute.to_int().and_then(|n| usize::try_from(n).ok()).filter(|&n| n < results);
            let Some(output) = output else {
                let message = format!("expected tf.aliasing_output to be the number of one of {results} results");
                return Err(Error::Invalid { site: site(), constraint: "alias.output", message });
            };
            let output_index = if results == 1 { Vec::new() } else { vec![output] };
            self.module.config.aliases.push(Alias {
                output_index,
                parameter,
                parameter_index: Vec::new(),
                kind: AliasKind::May,
            });
        }
        Ok(())
    }
}

fn entry_function(program: &Program) -> Result<&Function> {
    if let Some(main) = program.function("main") {
        return Ok(main);
    }
    let public: Vec<&Function> = program.functions.iter().filter(|f| !f.is_private && f.body.is_some()).collect();
    match public.as_slice() {
        [one] => Ok(one),
        _ => {
            let message =
                format!("expected a function '@main' or one public function, found {} public functions", public.len());
            Err(Error::Invalid { site: Site::default(), constraint: "module.entry", message })
        }
    }
}

/// The dimensions of the entry's arguments whose sizes the program leaves open.
pub(in crate::stablehlo) fn open_dimensions(program: &Program) -> Result<Vec<OpenDimension>> {
    let function = entry_function(program)?;
    let (mut out, mut leaf) = (Vec::new(), 0);
    for (k, ty) in function.arguments.iter().enumerate() {
        let mut parts = vec![ty];
        while let Some(ty) = parts.pop() {
            match ty {
                Type::Tuple(types) | Type::Future(types) => parts.extend(types.iter().rev()),
                Type::Tensor(t) | Type::Buffer(t) => {
                    let open = t.dims.iter().enumerate().filter(|(_, dim)| **dim == Dim::Dynamic);
                    out.extend(open.map(|(d, _)| OpenDimension { parameter: leaf, dimension: d as u32 }));
                    leaf += 1;
                }
                Type::Unranked(_) => {
                    let site = Site {
                        instruction: Some(format!("func.func @{}", function.name)),
                        location: function.at,
                        length: 0,
                    };
                    let name = parameter_name(program, function, k);
                    let feature = format!("several sizes of a program whose argument '{name}' has an open rank");
                    return Err(Error::Unsupported { site, feature });
                }
                _ => {}
            }
        }
    }
    Ok(out)
}

fn is_open(ty: &Type) -> bool {
    match ty {
        Type::Tensor(t) => t.dims.contains(&Dim::Dynamic),
        Type::Unranked(_) => true,
        _ => false,
    }
}

/// Refuses what an argument or a result says that changes a program on one device.
fn check_argument(attributes: &Dictionary, partitions: i64, site: &dyn Fn() -> Site) -> Result<()> {
    let unsupported = |feature: String| Err(Error::Unsupported { site: site(), feature });
    for (name, value) in attributes.iter() {
        match name {
            "mhlo.layout_mode" if !matches!(value.to_str(), Some("default" | "auto") | None) => {
                return unsupported(format!("the layout {} of an argument", value.to_str().unwrap_or_default()));
            }
            "mhlo.memory_kind" if !matches!(value.to_str(), Some("device" | "") | None) => {
                return unsupported(format!("an argument in the memory {}", value.to_str().unwrap_or_default()));
            }
            "mhlo.sharding" | "sdy.sharding" if partitions > 1 => {
                let replicated = matches!(value, Attribute::String(_))
                    && matches!(value.to_str(), Some("{replicated}" | "{manual}" | "{maximal device=0}"));
                if !replicated {
                    return unsupported(format!("an argument divided among {partitions} partitions"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
