import{a,b}from"./chunk-5AIIGTPI.js";import"./chunk-6HAVKDUI.js";import"./chunk-SZSSGPNV.js";import"./chunk-ENC3UZXF.js";export{a as OutcomeBar,b as default};
