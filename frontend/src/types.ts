// Generated from the API's OpenAPI document by `make studio`; do not edit.
