import{a,b}from"./chunk-DE4JLSB5.js";import"./chunk-E3PL6DBP.js";import"./chunk-CQGUTRLC.js";import"./chunk-ENC3UZXF.js";export{a as OutcomeBar,b as default};
