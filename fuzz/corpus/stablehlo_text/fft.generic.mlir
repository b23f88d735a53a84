"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{function_type = (tensor<16xf32>) -> tensor<9xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg1: tensor<16xf32>):
    %1 = "func.call"(%arg1) <{callee = @fft}> : (tensor<16xf32>) -> tensor<9xcomplex<f32>>
    %2 = "stablehlo.abs"(%1) : (tensor<9xcomplex<f32>>) -> tensor<9xf32>
    "func.return"(%2) : (tensor<9xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<16xf32>) -> tensor<9xcomplex<f32>>, sym_name = "fft", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<16xf32>):
    %0 = "stablehlo.fft"(%arg0) <{fft_length = array<i64: 16>, fft_type = #stablehlo<fft_type RFFT>}> : (tensor<16xf32>) -> tensor<9xcomplex<f32>>
    "func.return"(%0) : (tensor<9xcomplex<f32>>) -> ()
  }) : () -> ()
}) {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
