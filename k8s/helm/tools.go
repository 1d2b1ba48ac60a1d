//go:build tools

// Package tools names the program that this module pins: Helm, whose own module
// tools/install_deps.sh builds.
package tools

import _ "helm.sh/helm/v3/cmd/helm"
