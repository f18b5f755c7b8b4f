# Enables the CUDA language where nvcc is found, on the PATH or in its usual place; sets TANDEM_HAVE_CUDA.
include(CheckLanguage)
find_program(TANDEM_NVCC nvcc HINTS /usr/local/cuda/bin)
if(TANDEM_NVCC AND NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${TANDEM_NVCC})
endif()
set(CMAKE_CUDA_ARCHITECTURES 90a-real)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(WARNING "TANDEM_CUDA is on but there is no nvcc: the CUDA parts are left out")
  set(TANDEM_HAVE_CUDA OFF)
  return()
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
set(TANDEM_HAVE_CUDA ON)
# By hand: CMake 3.25 knows no C++20 flag of nvcc 13, and stops if the standard is required of it.
set(CMAKE_CUDA_STANDARD_REQUIRED OFF)
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;-Xcompiler=-Wall>")
# fmt 9 turns constexpr off for nvcc and then trips over it; and nvcc 13 cannot evaluate its check of
# format strings, which the host compiler does everywhere else.
add_compile_definitions("$<$<COMPILE_LANGUAGE:CUDA>:FMT_CONSTEVAL=;FMT_USE_CONSTEXPR=1>")
