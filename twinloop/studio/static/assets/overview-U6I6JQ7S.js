import{a,b}from"./chunk-RPIUYGKK.js";import"./chunk-6HAVKDUI.js";import"./chunk-J7YUPQYY.js";import"./chunk-ENC3UZXF.js";export{a as OutcomeBar,b as default};
