# Ballast: one non-recursive makefile. `make help` lists targets, variables and what was found on this machine.
#
# Every *.c of the folders below goes into one archive; every cli/NAME_main.c is a program that takes from it what it
# needs, so a program that must not have GLPK simply does not link it, and the linker proves it.

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

# make's own default for CC is cc: say gcc unless the user said otherwise
ifeq ($(origin CC),default)
CC := gcc
endif
AR           ?= ar
PREFIX       ?= /usr/local
DESTDIR      ?=
FUZZ_SECONDS ?= 60
CLANG        ?= clang
CLANG_FORMAT ?= clang-format
JOBS         ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
ifdef CI
WERROR ?= 1
endif
ifeq ($(SAN),1)
BUILD ?= build/san
else
BUILD ?= build
endif

OBJ     := $(BUILD)/obj-$(notdir $(firstword $(CC)))
VERSION := $(shell cat VERSION)
Q       := $(if $(filter 1,$(V)),,@)

# CFLAGS, CPPFLAGS and LDFLAGS are the user's; what the code needs comes beside them.
CFLAGS ?= -O2 -g
NEEDED_CPPFLAGS := -I. -D_XOPEN_SOURCE=700
# A switch over an enum that misses an enumerator never compiles: what it would do with it is nobody's choice.
NEEDED_CFLAGS   := -std=c11 -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror=switch
ifeq ($(WERROR),1)
NEEDED_CFLAGS += -Werror
endif
# Hardening. Fortified functions want an optimising build, and say nothing under a sanitizer.
NEEDED_CFLAGS += -fstack-protector-strong
ifneq ($(SAN),1)
ifneq ($(filter -O1 -O2 -O3 -Os -Ofast,$(CFLAGS)),)
NEEDED_CPPFLAGS += -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3
endif
endif
HARDENED_LINK := -Wl,-z,relro,-z,now
ifeq ($(SAN),1)
NEEDED_CFLAGS += -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
endif
ifeq ($(FUZZ),1)
NEEDED_CFLAGS += -fsanitize=fuzzer-no-link
endif
COMPILE = $(CC) $(NEEDED_CPPFLAGS) $(CPPFLAGS) $(NEEDED_CFLAGS) $(CFLAGS)
LINK    = $(CC) $(NEEDED_CFLAGS) $(CFLAGS) $(HARDENED_LINK) $(LDFLAGS)

# Deferred: a link asks pkg-config, a build that links nothing does not.
JSON_LIBS  = $(shell pkg-config --libs libcjson 2>/dev/null || echo -lcjson)
CHECK_LIBS = $(shell pkg-config --libs check 2>/dev/null || echo -lcheck -lsubunit -lrt -pthread)
XML_CFLAGS = $(shell pkg-config --cflags libxml-2.0 2>/dev/null || echo -I/usr/include/libxml2)
XML_LIBS   = $(shell pkg-config --libs libxml-2.0 2>/dev/null || echo -lxml2)
GLPK_LIBS  = -lglpk
FIT_CFLAGS = $(shell pkg-config --cflags cminpack 2>/dev/null || echo -I/usr/include/cminpack-1)
FIT_LIBS   = $(shell pkg-config --libs cminpack 2>/dev/null || echo -lcminpack -lm)
# Which sources include <libxml/...>: only they get its flags, and only then is it linked.
XML_SRCS  := $(shell grep -ls 'include <libxml/' core/*.c model/*/*.c 2>/dev/null)
BASE_LIBS  = $(JSON_LIBS) $(if $(XML_SRCS),$(XML_LIBS)) -lm
# Programs may need more than the base.
LIBS_ballast = $(GLPK_LIBS) $(FIT_LIBS)
# its shared objects call back into it
LIBS_exec    = -rdynamic -ldl -pthread
ALL_LIBS     = $(GLPK_LIBS) $(FIT_LIBS) -ldl -pthread

FOLDERS  := core $(addprefix model/,tensors graph cluster plan program) layouts planner sim exec kernels cli
SRCS     := $(sort $(wildcard $(addsuffix /*.c,$(FOLDERS))))
MAINS    := $(filter cli/%_main.c,$(SRCS))
# exec/lib_NAME.c -> ballast-NAME.so, which ballast-exec loads when it needs it; built where its library is.
PKG_mpi   := $(shell for p in ompi-c mpich mpi-c mpi; do pkg-config --exists $$p 2>/dev/null && { echo $$p; break; }; done)
HAVE_mpi  := $(if $(PKG_mpi),1)
HAVE_blas := $(shell pkg-config --exists openblas 2>/dev/null && echo 1)
HAVE_hwloc := $(shell pkg-config --exists hwloc 2>/dev/null && echo 1)
# The device backend is host C, and kernels for nvcc.
CUDA_HOME ?= /usr/local/cuda
NVCC      ?= $(CUDA_HOME)/bin/nvcc
# nccl.h: in the toolkit, where the system's package puts it, or in NCCL_HOME (that of a Python package is .../nvidia/nccl)
NCCL_H    := $(firstword $(wildcard $(addsuffix /nccl.h,$(if $(NCCL_HOME),$(NCCL_HOME)/include) $(CUDA_HOME)/include /usr/include)))
CUDA_INCLUDES = -isystem $(CUDA_HOME)/include $(if $(filter-out $(CUDA_HOME)/include/% /usr/include/%,$(NCCL_H)),-isystem $(dir $(NCCL_H)))
# CUB: nvcc finds it in its own toolkit (since 13 in cccl/); a toolkit in pieces may lack it.
CUB_H     := $(firstword $(wildcard $(addsuffix /cub/block/block_reduce.cuh,$(foreach d,$(CUDA_HOME) $(dir $(NVCC)).. /usr,$(d)/include/cccl $(d)/include))))
CU_SRCS   := $(sort $(wildcard kernels/*.cu))
CUDA_SRCS := $(sort $(wildcard kernels/cuda_*.c exec/cuda_*.c))
HAVE_nvcc := $(shell test -x $(NVCC) && echo 1)
HAVE_cuda := $(if $(CU_SRCS),$(and $(NCCL_H),$(CUB_H),$(HAVE_nvcc)))
# Ask for an option, and its absence is an error.
ifeq ($(CUDA),1)
ifneq ($(HAVE_cuda),1)
$(error CUDA=1: $(if $(NCCL_H),$(if $(HAVE_nvcc),no cub/block/block_reduce.cuh beside $(NVCC); the toolkit's cccl has it,no $(NVCC); set CUDA_HOME),no nccl.h in $(CUDA_HOME)/include or /usr/include; set NCCL_HOME))
endif
endif
ifeq ($(MPI),1)
ifneq ($(HAVE_mpi),1)
$(error MPI=1: pkg-config knows none of ompi-c, mpich, mpi-c, mpi; install libopenmpi-dev openmpi-bin, or set PKG_CONFIG_PATH)
endif
endif
MODULE_SRCS := $(filter exec/lib_%.c,$(SRCS))
MODULES  := $(foreach m,$(MODULE_SRCS:exec/lib_%.c=%),$(if $(HAVE_$(m)),$(BUILD)/ballast-$(m).so))
PKG_blas  = openblas
PKG_hwloc = hwloc
LIB_SRCS := $(filter-out $(MAINS) $(MODULE_SRCS) $(CUDA_SRCS),$(SRCS))
LIB_OBJS := $(LIB_SRCS:%.c=$(OBJ)/%.o) $(OBJ)/gen/bundled.o
LIB      := $(OBJ)/libballast.a
# cli/ballast_main.c -> ballast, cli/exec_main.c -> ballast-exec
program   = $(if $(filter ballast,$(1)),$(BUILD)/ballast,$(BUILD)/ballast-$(1))
STEMS    := $(MAINS:cli/%_main.c=%)
PROGRAMS := $(foreach s,$(STEMS),$(call program,$(s)))

TOPOLOGIES  := $(sort $(wildcard topologies/*.json))
GRIDS       := $(sort $(wildcard topologies/gemm/*.json))
# What others measured: `ballast validate` without a file.
MEASURED    := $(sort $(wildcard experiments/*/measured/*.json))
# Tests of host code for CUDA need its headers and no library: a stand-in takes their place.
ON_STANDIN  := tests/cuda/test_backend.c tests/cuda/test_errors.c tests/cuda/test_preconditioner.c
HAVE_standin := $(and $(wildcard $(CUDA_HOME)/include/cublas_v2.h),$(NCCL_H))
# Those of kernels/*.cu run them on this CPU: tests/cuda/emulate.h before the source, and a C++ compiler of CC's kind.
ifeq ($(origin CXX),default)
CXX := $(if $(findstring clang,$(CC)),clang++,g++)
endif
HAVE_cxx    := $(shell command -v $(CXX) >/dev/null 2>&1 && echo 1)
ON_EMULATION := $(filter-out $(ON_STANDIN),$(sort $(wildcard tests/cuda/test_*.c)))
TEST_SRCS   := $(sort $(filter-out tests/fuzz/% tests/bench/% $(if $(HAVE_standin),,$(ON_STANDIN)),$(wildcard tests/*/test_*.c)))
TESTS       := $(TEST_SRCS:%.c=$(OBJ)/%)
FUZZ_SRCS   := $(sort $(wildcard tests/fuzz/fuzz_*.c))
REPLAYS     := $(FUZZ_SRCS:tests/fuzz/fuzz_%.c=$(OBJ)/tests/fuzz/replay_%)
FUZZERS     := $(FUZZ_SRCS:%.c=$(OBJ)/%)
BENCH_SRCS  := $(sort $(wildcard tests/bench/bench_*.c))
BENCHES     := $(BENCH_SRCS:%.c=$(OBJ)/%)
CASES       := $(sort $(wildcard tests/cli/*.case))
QUICK_TESTS := $(filter-out $(foreach d,exec kernels cuda mpi gpu,$(OBJ)/tests/$(d)/%),$(TESTS))
QUICK_CASES := $(filter-out tests/cli/exec%.case tests/cli/doctor.case,$(CASES))
SCRIPTS := $(filter-out %/lib.sh,$(sort $(wildcard tests/mpi/*.sh tests/gpu/*.sh tests/cli/*.sh)))
C_FILES     := $(sort $(wildcard $(foreach d,$(FOLDERS) tests tests/* tests/cuda/cub/*,$(d)/*.c $(d)/*.h $(d)/*.cu $(d)/*.cuh $(d)/*.cc)))

.PHONY: all run test test-all test-run test-run-quick tests-quick check-san check-deps ptxas fuzz fuzz-run model-table validation-rows experiments-pages bench bench-sim bench-exec check-exec gpu-bundle gpu-check standin format format-check \
        install install-files uninstall clean help experiments \
        install-deps tests FORCE

all: $(PROGRAMS) $(MODULES) $(LIB)

# ---- compile and link ----

# Rewritten only when its text changes: objects follow the compiler and the flags.
STAMP := $(OBJ)/flags
$(STAMP): FORCE
	@mkdir -p $(@D)
	@printf '%s\n' '$(COMPILE) | $(HARDENED_LINK) $(LDFLAGS) | $(VERSION)' | cmp -s - $@ || \
	  printf '%s\n' '$(COMPILE) | $(HARDENED_LINK) $(LDFLAGS) | $(VERSION)' > $@

# The same for lists of members, so that a removed source leaves the archive and a removed topology the program.
LIST     := $(OBJ)/members
GEN_LIST := $(BUILD)/gen/members
$(LIST): MEMBERS = $(LIB_OBJS)
$(GEN_LIST): MEMBERS = $(TOPOLOGIES) $(GRIDS) $(MEASURED)
$(LIST) $(GEN_LIST): FORCE
	@mkdir -p $(@D)
	@echo '$(MEMBERS)' | cmp -s - $@ || echo '$(MEMBERS)' > $@

$(OBJ)/core/version.o: EXTRA_FLAGS = -DBALLAST_VERSION='"$(VERSION)"'
$(XML_SRCS:%.c=$(OBJ)/%.o): EXTRA_FLAGS = $(XML_CFLAGS)
$(OBJ)/core/leastsq.o: EXTRA_FLAGS = $(FIT_CFLAGS)

$(OBJ)/%.o: %.c $(STAMP)
	@mkdir -p $(@D)
	$(if $(Q),@echo '  CC    $<')
	$(Q)$(COMPILE) $(EXTRA_FLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/gen/bundled.c: $(TOPOLOGIES) $(GRIDS) $(MEASURED) tools/embed.sh $(GEN_LIST)
	@mkdir -p $(@D)
	$(if $(Q),@echo '  GEN   $@')
	$(Q)sh tools/embed.sh bundled_clusters $(TOPOLOGIES) -- bundled_grids $(GRIDS) -- bundled_measurements $(MEASURED) > $@

$(OBJ)/gen/bundled.o: $(BUILD)/gen/bundled.c $(STAMP)
	@mkdir -p $(@D)
	$(if $(Q),@echo '  CC    $<')
	$(Q)$(COMPILE) -MMD -MP -c -o $@ $<

$(LIB): $(LIB_OBJS) $(LIST)
	$(if $(Q),@echo '  AR    $@')
	$(Q)rm -f $@
	$(Q)$(AR) rcs $@ $(LIB_OBJS)

# Linking to a new name first: a program that is running is replaced, not overwritten.
define program_rule
$(call program,$(1)): $(OBJ)/cli/$(1)_main.o $(LIB) $(BUILD)/linked
	$$(if $$(Q),@echo '  LINK  $$@')
	$$(Q)$$(LINK) -o $$@.new $$(filter %.o %.a,$$^) $$(LIBS_$(1)) $$(BASE_LIBS)
	$$(Q)mv -f $$@.new $$@
endef
$(foreach s,$(STEMS),$(eval $(call program_rule,$(s))))

$(BUILD)/ballast-%.so: exec/lib_%.c $(STAMP) $(BUILD)/linked
	@mkdir -p $(OBJ)/exec
	$(if $(Q),@echo '  SO    $@')
	$(Q)$(COMPILE) $(shell pkg-config --cflags $(PKG_$*)) -fPIC -MMD -MP -MF $(OBJ)/exec/lib_$*.so.d -MT $@ -shared -o $@.new \
	  $< $(HARDENED_LINK) $(LDFLAGS) $(shell pkg-config --libs $(PKG_$*))
	$(Q)mv -f $@.new $@

# Every architecture that we name, and PTX for those to come. make ptxas prints what they take.
NVCC_ARCHS ?= -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90]
NVCC_FLAGS  = -O3 -std=c++17 -I. $(NVCC_ARCHS) --compiler-options -fPIC,-Wall,-Wextra $(if $(filter 1,$(WERROR)),-Werror all-warnings)
CUDA_OBJS  := $(CU_SRCS:%.cu=$(OBJ)/%.cu.o) $(CUDA_SRCS:%.c=$(OBJ)/%.pic.o)

$(OBJ)/%.cu.o: %.cu $(STAMP)
	@mkdir -p $(@D)
	$(if $(Q),@echo '  NVCC  $<')
	$(Q)$(NVCC) $(NVCC_FLAGS) -MMD -MF $(@:.o=.d) -c -o $@ $<

$(OBJ)/%.pic.o: %.c $(STAMP)
	@mkdir -p $(@D)
	$(if $(Q),@echo '  CC    $<')
	$(Q)$(COMPILE) $(CUDA_INCLUDES) -fPIC -MMD -MP -c -o $@ $<

# The runtime is linked in; cuBLAS, and NCCL when there are ranks, are the machine's.
$(BUILD)/ballast-cuda.so: exec/lib_cuda.c $(CUDA_OBJS) $(STAMP) $(BUILD)/linked
	@mkdir -p $(OBJ)/exec
	$(if $(Q),@echo '  SO    $@')
	$(Q)$(COMPILE) $(CUDA_INCLUDES) -fPIC -MMD -MP -MF $(OBJ)/exec/lib_cuda.so.d -MT $@ -shared -o $@.new \
	  $< $(CUDA_OBJS) $(HARDENED_LINK) $(LDFLAGS) -L$(CUDA_HOME)/lib64 -lcudart_static -lcublas -Wl,-Bstatic -lstdc++ -Wl,-Bdynamic -static-libgcc -lrt -ldl -pthread
	$(Q)mv -f $@.new $@

# One build folder, two compilers: remember whose programs lie in it.
$(BUILD)/linked: FORCE
	@mkdir -p $(@D)
	@echo '$(OBJ)' | cmp -s - $@ || echo '$(OBJ)' > $@

$(filter-out $(ON_EMULATION:%.c=$(OBJ)/%),$(TESTS)): $(OBJ)/%: $(OBJ)/%.o $(LIB)
	$(if $(Q),@echo '  LINK  $@')
	$(Q)$(LINK) $(WRAPPED) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(CHECK_LIBS) $(ALL_LIBS) $(BASE_LIBS)
# They give every reader rows that the product does not have.
$(OBJ)/tests/sim/test_optimizers: WRAPPED = -Wl,--wrap=optimizer_row
$(OBJ)/tests/cli/test_planted_option: WRAPPED = -Wl,--wrap=job_option_at

# <cub/...> is tests/cuda/cub's.
EMULATED_CPPFLAGS = -I. -Itests/cuda
# Warnings of CUDA's own pragmas are no news to a C++ compiler; no kernel throws.
EMULATED_CFLAGS  = -std=c++17 -O1 -g -Wall -Wextra -Wno-unknown-pragmas $(if $(findstring clang,$(CXX)),-Wno-pass-failed) -fno-exceptions -fno-rtti -ffp-contract=off \
  $(filter -Werror -fsanitize% -fno-sanitize% -fno-omit%,$(NEEDED_CFLAGS))
EMULATED_OBJS   := $(CU_SRCS:%.cu=$(OBJ)/%.emulated.o) $(patsubst %.cc,$(OBJ)/%.o,$(sort $(wildcard tests/cuda/*.cc)))
EMULATED_LIB    := $(OBJ)/libemulated.a

$(OBJ)/%.emulated.o: %.cu $(STAMP)
	@mkdir -p $(@D)
	$(if $(Q),@echo '  CXX   $< (emulated)')
	$(Q)$(CXX) $(EMULATED_CPPFLAGS) $(EMULATED_CFLAGS) -x c++ -include tests/cuda/emulate.h -MMD -MP -c -o $@ $<

$(OBJ)/%.o: %.cc $(STAMP)
	@mkdir -p $(@D)
	$(if $(Q),@echo '  CXX   $<')
	$(Q)$(CXX) $(EMULATED_CPPFLAGS) $(EMULATED_CFLAGS) -MMD -MP -c -o $@ $<

$(EMULATED_LIB): $(EMULATED_OBJS) $(OBJ)/kernels/cuda_workspace.o
	$(if $(Q),@echo '  AR    $@')
	$(Q)rm -f $@
	$(Q)$(AR) rcs $@ $^

ifeq ($(HAVE_cxx),1)
$(ON_EMULATION:%.c=$(OBJ)/%): $(OBJ)/%: $(OBJ)/%.o $(EMULATED_LIB) $(LIB)
	$(if $(Q),@echo '  LINK  $@')
	$(Q)$(LINK) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(CHECK_LIBS) $(ALL_LIBS) $(BASE_LIBS)
else
$(ON_EMULATION:%.c=$(OBJ)/%): Makefile
	@mkdir -p $(@D)
	@printf '#!/bin/sh\necho "no C++ compiler ($(CXX)): kernels do not run on the CPU"\nexit 77\n' > $@ && chmod +x $@
endif

# Its objects see CUDA's headers; the runtime, cuBLAS and NCCL are the stand-in's.
STANDIN_OBJS := $(patsubst %.c,$(OBJ)/%.o,$(sort $(wildcard tests/cuda/standin_*.c)) exec/lib_cuda.c \
  $(filter-out kernels/cuda_workspace.c,$(CUDA_SRCS)))
# nccl.h declares some functions without a prototype
$(STANDIN_OBJS): EXTRA_FLAGS = $(CUDA_INCLUDES) -Wno-missing-prototypes
$(ON_STANDIN:%.c=$(OBJ)/%): $(STANDIN_OBJS)
$(ON_STANDIN:%.c=$(OBJ)/%): LDFLAGS += -rdynamic

$(REPLAYS): $(OBJ)/tests/fuzz/replay_%: $(OBJ)/tests/fuzz/replay_main.o $(OBJ)/tests/fuzz/fuzz_%.o $(LIB)
	$(if $(Q),@echo '  LINK  $@')
	$(Q)$(LINK) -o $@ $(filter %.o %.a,$^) $(ALL_LIBS) $(BASE_LIBS)

$(FUZZERS): $(OBJ)/%: $(OBJ)/%.o $(LIB)
	$(if $(Q),@echo '  LINK  $@')
	$(Q)$(LINK) -fsanitize=fuzzer -o $@ $(filter %.o %.a,$^) $(ALL_LIBS) $(BASE_LIBS)

$(BENCHES): $(OBJ)/%: $(OBJ)/%.o $(LIB)
	$(if $(Q),@echo '  LINK  $@')
	$(Q)$(LINK) -o $@ $(filter %.o %.a,$^) $(ALL_LIBS) $(BASE_LIBS)

.SECONDARY:
-include $(shell find $(OBJ) -name '*.d' 2>/dev/null)

# ---- run and test ----

SUBMAKE = $(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(JOBS))

install-deps:
	@sh tools/install-deps.sh

run:
	@sh tools/install-deps.sh
	@$(SUBMAKE) all
	@sh experiments/00-main-job/run.sh

tests: all $(TESTS) $(REPLAYS) $(BUILD)/gpu-bundle-exec
tests-quick: $(PROGRAMS) $(QUICK_TESTS) $(REPLAYS)

# What a change of a model, a layout, the planner or the simulator needs; training, ranks and kernels are test-all's.
test:
	@sh tools/install-deps.sh
	@$(SUBMAKE) tests-quick
	@$(SUBMAKE) test-run-quick

test-all:
	@sh tools/install-deps.sh
	@$(SUBMAKE) tests
	@$(SUBMAKE) test-run

RUN_TESTS = BUILD='$(BUILD)' OBJ='$(OBJ)' JOBS='$(JOBS)' ONLY='$(ONLY)' CC='$(CC)' SAN='$(SAN)'

# ONLY=text runs the test programs, corpora and case files whose path contains it.
test-run: tests
	@$(RUN_TESTS) TESTS='$(TESTS)' REPLAYS='$(REPLAYS)' CASES='$(CASES)' SCRIPTS='$(SCRIPTS)' sh tests/run_all.sh

test-run-quick: tests-quick
	@$(RUN_TESTS) TESTS='$(QUICK_TESTS)' REPLAYS='$(REPLAYS)' CASES='$(QUICK_CASES)' SCRIPTS= sh tests/run_all.sh

check-san:
	@$(MAKE) --no-print-directory SAN=1 test-all

check-deps:
	@CC='$(CC)' BUILD='$(BUILD)' OBJ='$(OBJ)' JOBS='$(JOBS)' sh tools/check-deps.sh

# Registers, shared memory and spills of every kernel; a spill fails it.
ptxas:
	@NVCC='$(NVCC)' sh tools/ptxas.sh

# Coverage-guided, under clang. New inputs stay in build/fuzz/corpus; a crash is left in build/fuzz and fails the target.
fuzz:
	@command -v $(CLANG) >/dev/null || { echo 'make fuzz needs clang and libclang-rt-14-dev' >&2; exit 1; }
	@$(SUBMAKE) CC=$(CLANG) SAN=1 FUZZ=1 BUILD=build/fuzz fuzz-run

fuzz-run: $(FUZZERS)
	@set -e; for f in $(FUZZERS); do \
	  name=$${f##*/fuzz_}; mkdir -p $(BUILD)/corpus/$$name; \
	  seeds=tests/fuzz/corpus/$$name; [ -d $$seeds ] || seeds=; \
	  echo "fuzz $$name for $(FUZZ_SECONDS) s"; \
	  $$f -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 -print_final_stats=0 -verbosity=0 \
	    -artifact_prefix=$(BUILD)/$$name- $(BUILD)/corpus/$$name $$seeds; \
	done

validation-rows: all
	@BALLAST='$(abspath $(BUILD))/ballast' sh tools/validation-rows.sh . > docs/VALIDATION-ROWS.md
	@BALLAST='$(abspath $(BUILD))/ballast' sh tools/validation-collectives.sh . fits > $(BUILD)/page.md
	@mv $(BUILD)/page.md docs/VALIDATION.md
	@for page in docs/VALIDATION.md experiments/03-steps/README.md; do \
	  BALLAST='$(abspath $(BUILD))/ballast' sh tools/validation-steps.sh . $$page > $(BUILD)/page.md && mv $(BUILD)/page.md $$page || exit 1; \
	done

# Pictures and printed results in the pages of experiments and in README.md.
experiments-pages: all
	@BALLAST='$(abspath $(BUILD))/ballast' OUT='$(abspath $(BUILD))/experiments' sh tools/experiments-pages.sh .

# What is read of config.json files and indices, one row each: MODELS='dir/*.json', RUNS=5.
model-table: all
	@BALLAST='$(BUILD)/ballast' sh tools/model-table.sh $(MODELS)

# The simulator on one core: flows a second, memory, folded steps. ROW=text: those rows only.
bench-sim: $(OBJ)/tests/bench/bench_sim $(BUILD)/ballast
	@BALLAST='$(BUILD)/ballast' $< $(if $(ROW),'$(ROW)')

bench: $(BENCHES) all
	@set -e; for b in $(BENCHES); do $$b; done
	$(if $(BENCHES),,@echo 'no benchmarks: tests/bench/bench_*.c')

# Training for real on this machine: Newton-Schulz against the BLAS, and layouts side by side on RANKS=4 ranks.
# For a machine with a GPU: see docs/CLUSTER.md. The bundle runs where nothing can be built.
# Its ballast-exec has cJSON inside: CJSON_C=path/to/cJSON.c, or libcjson.a, or, where the package has only a shared one, the package's
# source, which apt-get fetches into $(BUILD)/cjson once. With none of them it finds libcjson.so in the folder's lib/, and a line says so.
# It reads plans and JSON, not XML: libxml2 would bring ICU, 30 MiB. Its own reader of XML refuses, and comes before the archive's.
CJSON_A  := $(filter /%,$(shell $(CC) -print-file-name=libcjson.a))
CJSON_C  ?=
NO_XML := $(XML_SRCS:%.c=$(OBJ)/no-xml/%.o)
$(OBJ)/no-xml/%.o: %.c $(STAMP)
	@mkdir -p $(@D)
	$(if $(Q),@echo '  CC    $< (no XML)')
	$(Q)$(COMPILE) -DBALLAST_NO_XML -MMD -MP -c -o $@ $<

$(BUILD)/gpu-bundle-exec: $(OBJ)/cli/exec_main.o $(NO_XML) $(LIB) $(BUILD)/linked $(CJSON_A) $(CJSON_C) FORCE
	$(if $(Q),@echo '  LINK  $@')
	$(Q)c=$(if $(CJSON_C),'$(CJSON_C)',$(if $(CJSON_A)$(filter 1,$(SAN)),,$$(sh tools/cjson-source.sh '$(BUILD)/cjson'))); \
	  json='$(or $(CJSON_A),$(JSON_LIBS))'; \
	  if [ -n "$$c" ]; then json='$(OBJ)/cJSON.o'; $(CC) -O2 -w -I"$$(dirname "$$c")" -c -o "$$json" "$$c" || exit; fi; \
	  $(LINK) -o $@.new $(OBJ)/cli/exec_main.o $(NO_XML) $(LIB) $(LIBS_exec) $$json \
	  -Wl,-rpath,'$$ORIGIN/lib',--disable-new-dtags -lm
	$(Q)mv -f $@.new $@

gpu-bundle: all $(BUILD)/gpu-bundle-exec
	@BUILD='$(BUILD)' CC='$(CC)' sh tools/gpu-bundle.sh

# What the cuda backend calls on the stand-in: a line a layout, algorithm and number of ranks.
standin: $(OBJ)/tests/cuda/test_backend
	@echo 'layout             gather       model     ranks  kernels  copies collectives  messages  waits   bytes sent  bits, bytes'
	@STANDIN_TABLE=1 CK_FORK=no CK_TIMEOUT_MULTIPLIER=10 $(OBJ)/tests/cuda/test_backend | grep equal

# Every experiment but 90-hardware; results and pictures in build/experiments. Under two minutes.
experiments: all
	@set -e; for e in experiments/[01]*/; do n=$$(basename $$e); mkdir -p $(BUILD)/experiments; \
	  BALLAST=$(BUILD)/ballast OUT=$(BUILD)/experiments/$$n sh $$e/run.sh >$(BUILD)/experiments/$$n.log 2>&1 || { cat $(BUILD)/experiments/$$n.log; exit 1; }; \
	  echo "$$n: $$(sed -n 's/^=> //p; /^Take /p' $(BUILD)/experiments/$$n.log)"; done

gpu-check: gpu-bundle
	@BUILD='$(BUILD)' sh tools/gpu-check.sh

check-exec: all
	@BUILD='$(BUILD)' sh tests/bench/check_exec.sh

bench-exec: $(OBJ)/tests/bench/bench_exec all
	@BUILD='$(BUILD)' $<
	@BUILD='$(BUILD)' sh tests/bench/bench_exec.sh

# ---- source ----

format:
	$(CLANG_FORMAT) -i $(C_FILES)

format-check:
	$(CLANG_FORMAT) --dry-run --Werror $(C_FILES)

# ---- install ----

MAN  := $(DESTDIR)$(PREFIX)/share/man/man1
BASH := $(DESTDIR)$(PREFIX)/share/bash-completion/completions

# Pages and completion are made from what the programs say of themselves.
install: all
	@$(MAKE) --no-print-directory install-files

# What is built, as it is.
install-files:
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(PREFIX)/share/doc/ballast' '$(MAN)' '$(BASH)'
	$(if $(PROGRAMS),install -m 755 $(PROGRAMS) '$(DESTDIR)$(PREFIX)/bin')
	$(if $(MODULES),install -m 755 $(MODULES) '$(DESTDIR)$(PREFIX)/bin')
	install -m 644 LICENSE NOTICE '$(DESTDIR)$(PREFIX)/share/doc/ballast'
	sh tools/man.sh ballast '$(BUILD)' > '$(MAN)/ballast.1'
	sh tools/man.sh ballast-exec '$(BUILD)' > '$(MAN)/ballast-exec.1'
	sh tools/completion.sh '$(BUILD)' > '$(BASH)/ballast'
	ln -sf ballast '$(BASH)/ballast-exec'

uninstall:
	rm -f $(foreach p,$(notdir $(PROGRAMS) $(MODULES)),'$(DESTDIR)$(PREFIX)/bin/$(p)')
	rm -f '$(MAN)/ballast.1' '$(MAN)/ballast-exec.1' '$(BASH)/ballast' '$(BASH)/ballast-exec'
	rm -rf '$(DESTDIR)$(PREFIX)/share/doc/ballast'

clean:
	rm -rf build build-*

help:
	@echo 'Ballast $(VERSION)'
	@echo
	@echo 'targets'
	@echo '  all           build the programs into $(BUILD)/ (default)'
	@echo '  run           install what is missing, build, run the main experiment'
	@echo '  test          install what is missing, build, test models, layouts, planner, simulator and commands (ONLY=text: those whose path contains it)'
	@echo '  test-all      the same and all others: exec under MPI, kernels, the device on a stand-in'
	@echo '  check-san     the same under AddressSanitizer and UBSan, in build/san'
	@echo '  check-deps    who includes whom'
	@echo '  ptxas         registers, shared memory and spills of the CUDA kernels, for sm_80 and sm_90'
	@echo '  fuzz          run each fuzz target for FUZZ_SECONDS=$(FUZZ_SECONDS) under clang'
	@echo '  validation-rows  write docs/VALIDATION-ROWS.md, every measured step beside its prediction, and'
	@echo '                the errors in docs/VALIDATION.md and experiments/03-steps'
	@echo '  experiments-pages  run the experiments; renew pictures and printed results in their pages and README.md'
	@echo "  model-table   totals, matrices, tail and time of MODELS='dir/*.json'"
	@echo '  bench         run the benchmarks; bench-sim the simulator on one core (docs/ENGINE.md); bench-exec trains on this machine, RANKS=4'
	@echo '  check-exec    the proof of exec over layouts and ranks, a table, RANKS="1 2 3 4 7 8 64"'
	@echo '  experiments   every experiment but 90-hardware, into build/experiments'
	@echo '  gpu-check     all that one NVIDIA GPU can say; gpu-bundle: a folder that does it elsewhere'
	@echo '                (CJSON_C=path/to/cJSON.c: to be linked in; else libcjson.a or what apt-get has)'
	@echo '  standin       what the cuda backend calls, run by run, on a stand-in for the GPU'
	@echo '  format        clang-format all C; format-check only looks'
	@echo '  install       programs, manual pages, bash completion into DESTDIR PREFIX=$(PREFIX); uninstall'
	@echo '  install-deps  what run and test do first; NO_INSTALL=1 skips it, and fetches no source for gpu-bundle'
	@echo '  clean         remove build/'
	@echo
	@echo 'variables'
	@echo '  CC=gcc|clang  CFLAGS  CPPFLAGS  LDFLAGS  BUILD=folder  SAN=1  WERROR=1 (set when CI is)  V=1  JOBS=n'
	@echo '  CUDA=1 MPI=1  fail when ballast-cuda.so or ballast-mpi.so cannot be built; CUDA_HOME, NCCL_HOME say where to look'
	@echo
	@echo 'found on this machine'
	@for p in glpk cjson check gnuplot mpi blas libxml2 cuda nccl; do \
	  printf '  %-12s %s\n' $$p "$$(CC='$(CC)' sh tools/probe.sh $$p)"; done
	@printf '  %-12s %s\n' builds '$(notdir $(PROGRAMS) $(MODULES))'
