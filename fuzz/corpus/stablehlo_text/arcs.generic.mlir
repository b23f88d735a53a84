"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{function_type = (tensor<5xf32>) -> tensor<5xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg1: tensor<5xf32>):
    %8 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %9 = "stablehlo.composite"(%arg1) <{decomposition = @chlo.asin.impl, name = "chlo.asin", version = 1 : i32}> : (tensor<5xf32>) -> tensor<5xf32>
    %10 = "stablehlo.broadcast_in_dim"(%8) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<5xf32>
    %11 = "stablehlo.add"(%arg1, %10) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %12 = "stablehlo.atan2"(%arg1, %11) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %13 = "stablehlo.add"(%9, %12) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    "func.return"(%13) : (tensor<5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<5xf32>) -> tensor<5xf32>, sym_name = "chlo.asin.impl", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<5xf32>):
    %0 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<5xf32>}> : () -> tensor<5xf32>
    %1 = "stablehlo.subtract"(%0, %arg0) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %2 = "stablehlo.add"(%0, %arg0) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %3 = "stablehlo.multiply"(%1, %2) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %4 = "stablehlo.sqrt"(%3) : (tensor<5xf32>) -> tensor<5xf32>
    %5 = "stablehlo.add"(%0, %4) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %6 = "stablehlo.atan2"(%arg0, %5) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %7 = "stablehlo.add"(%6, %6) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    "func.return"(%7) : (tensor<5xf32>) -> ()
  }) : () -> ()
}) {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
