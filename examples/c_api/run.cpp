// An object for several sizes from C++: run OBJECT SIZE... runs the program of each size and prints its results.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
#include "brolga.h"

namespace {

void check(int32_t status) {
    if (status != BROLGA_OK) throw std::runtime_error(brolga_error_message());
}

template <typename T, void (*destroy)(T *)>
struct Destroy {
    void operator()(T *handle) const { destroy(handle); }
};
using Object = std::unique_ptr<brolga_object, Destroy<brolga_object, brolga_object_destroy>>;
using Program = std::unique_ptr<brolga_program, Destroy<brolga_program, brolga_program_destroy>>;

Object load(const char *path) {
    brolga_object *object = nullptr;
    check(brolga_object_load_file(path, nullptr, 0, &object));
    return Object(object);
}

Program select(const Object &object, int64_t size) {
    brolga_program *program = nullptr;
    check(brolga_object_select(object.get(), &size, 1, &program));
    return Program(program);
}

void run(const Program &program) {
    // The descriptor, read as the headers of compiled programs do.
    const brolga_descriptor *d = brolga_program_descriptor(program.get());
    std::vector<std::vector<float>> buffers;
    std::vector<brolga_input> inputs;
    std::vector<brolga_output> outputs;
    for (uint32_t i = 0; i < d->parameter_count; i++) {
        buffers.emplace_back(brolga_parameter(d, i)->bytes / sizeof(float));
        for (size_t k = 0; k < buffers.back().size(); k++) buffers.back()[k] = float(k % 17) / 8 - 1;
        inputs.push_back({buffers.back().data(), brolga_parameter(d, i)->bytes});
    }
    for (uint32_t i = 0; i < d->result_count; i++) {
        buffers.emplace_back(brolga_result(d, i)->bytes / sizeof(float));
        outputs.push_back({buffers.back().data(), brolga_result(d, i)->bytes});
    }
    check(brolga_program_run(program.get(), nullptr, inputs.data(), inputs.size(), outputs.data(), outputs.size()));
    std::printf("%s:", brolga_program_name(program.get()));
    for (const brolga_output &output : outputs) {
        const float *values = static_cast<const float *>(output.data);
        for (size_t k = 0; k < output.bytes / sizeof(float); k++) std::printf(" %.9g", double(values[k]));
    }
    std::printf("\n");
}

}  // namespace

int main(int argc, char **argv) {
    try {
        if (argc < 2) throw std::runtime_error("run OBJECT SIZE...");
        Object object = load(argv[1]);
        std::printf("%zu sizes\n", brolga_object_program_count(object.get()));
        for (int i = 2; i < argc; i++) {
            try {
                run(select(object, std::atoll(argv[i])));
            } catch (const std::runtime_error &e) {
                std::printf("%s: %s\n", argv[i], e.what());
            }
        }
    } catch (const std::runtime_error &e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
