// Package protect judges by an object alone whether its label protects it from deletion.
//
// The policy of the member's chart, policy_protect.yaml, says the same in CEL; a test of the charts compares the two. What only
// other objects can tell, namely what a namespace or a CRD holds, package member/protection looks up.
package protect
