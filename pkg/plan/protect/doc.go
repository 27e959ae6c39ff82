// Package protect decides, looking only at an object itself, whether its label protects it from deletion.
//
// The policy in the member's chart, policy_protect.yaml, implements the same in CEL; a test of the charts compares the two. Whatever depends on
// other objects, such as the contents of a namespace or a CRD, is looked up by package member/protection.
package protect
